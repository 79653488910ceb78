"""Fathom in Python: ``fathom.probe("statement", model="gpt2", data="BEAR").summary()``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.api.links import evaluate_links, train_links
from fathom.api.result import Asked, Out, Result, Source, folders_of, read_source
from fathom.data.selection.filters import narrow
from fathom.errors import BadInput, FathomError, MissingExtra
from fathom.models.base import AnyModel
from fathom.options import chosen_options, parse_options, separated
from fathom.probes import PROBES, Entry
from fathom.probes.models import check_loaded, open_model
from fathom.probes.options import ProbeOptions
from fathom.probes.shared_options import HERE
from fathom.progress import Shown, detail, shown, starting
from fathom.results.compare import COMPARED
from fathom.results.compare import compare as compare_folders
from fathom.results.comparison import Comparison
from fathom.results.diff import Change
from fathom.results.diff import diff as diff_folders
from fathom.run import run
from fathom.store.folder import RunFolder

if TYPE_CHECKING:
    from fathom.report.page import Report

__all__ = [
    "Result",
    "compare",
    "diff",
    "evaluate_links",
    "merge_runs",
    "open_run",
    "plots",
    "probe",
    "train_links",
    "write_report",
]


def probe(
    asked: str | ProbeOptions, model: Asked, data: Source, out: Out = None, progress: Shown = None, **options: Any
) -> Result:
    """Query a model about the facts in *data*.

    :param asked: options of a probe, such as ``StatementOptions(max_rank=100)``; or the name of a probe, whose options
        then follow as keywords: "statement" (alias "bear"), "embedding" ("deer"), "vocabulary" ("lama"), "cloze",
        "ontology" ("ontoprobe"), "generation" ("kamel") or "choice".
    :param model: name or folder of a `transformers` model, or one from ``load_model`` or ``wrap_model``; for the choice
        probe also a :class:`fathom.models.server.ChatServer`, or its model's name with ``server="http://…/v1"``.
    :param data: a folder, the name of an embedded data set, or a query set.
    :param out: folder of the run; an unfinished run of the same options is resumed. None: a temporary folder. With
        ``part="1/4"`` the run may be unfinished afterwards: ``Result.is_complete()``.
    :param progress: called with (shards done, all shards) instead of a progress bar; False: nothing is shown.
    :param options: of a probe that is named, checked at run time.
    :raises BadInput: everything that is wrong with options, data and model, at once.
    """
    entry = _entry_of(asked) if isinstance(asked, ProbeOptions) else PROBES.find(asked)
    kind = entry.options
    if not issubclass(kind, ProbeOptions):
        raise BadInput(f"the {entry.name} probe needs a {entry.needs}: fathom kgc evaluate, or fathom.evaluate_links")
    faults: list[str] = []
    chosen = _collect(faults, lambda: chosen_options(asked, options, lambda given: parse_options(kind, given)))
    with starting(f"{entry.name} probe: opening data and model", progress):
        queryset = _collect(faults, lambda: read_source(data))
        if queryset is not None and chosen is not None:
            part = _collect(faults, lambda: narrow(queryset, entry.load().complete_options(chosen, queryset)))
        here = chosen is not None or "server" not in options  # else the name is not of a model to load
        local = _collect(faults, lambda: _model(model, chosen or kind())) if here else None
    if faults or chosen is None or queryset is None or local is None:
        raise BadInput(faults)
    detail(f"{entry.name} probe of {local!r} on {queryset!r}")
    named = local if isinstance(local, str) else local.identity.name
    with shown(f"{entry.name} {named}", progress) as report:
        folder = run(entry, local, part, chosen, out or tempfile.mkdtemp(prefix="fathom-"), report)
    detail(f"kept in {folder.path}")
    return Result(folder, chosen.cluster).keep_metrics()


def _entry_of(options: ProbeOptions) -> Entry:
    """Return the probe whose options these are. :raises BadInput: there is none."""
    for entry in PROBES.entries():
        if entry.options is type(options):
            return entry
    raise BadInput(f"{type(options).__name__}: expected the options of a probe, such as StatementOptions")


def open_run(path: str | Path) -> Result:
    """A run made before.

    :raises BadInput: not a run.
    """
    return Result(RunFolder.open(path))


def merge_runs(runs: Sequence[str | Path | Result], out: str | Path) -> Result:
    """The parts of one run (``part="1/2"``), each asked into a folder of its own, as one folder; they stay as they are.

    :param runs: two or more, with no shard in common.
    :param out: must not exist. Where shards are left, :func:`probe` into it asks them.
    :raises BadInput: folders of different runs, or with shards in common; one in which a process is at work.
    """
    from fathom.store import merging

    return Result(merging.merge_runs(folders_of(runs), Path(out))).keep_metrics()


def compare(
    runs: Sequence[str | Path | Result],
    scoring: Sequence[str] = (),
    metrics: Sequence[str] = COMPARED,
    cluster: str = "",
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
    seeds: int = 1,
) -> Comparison:
    """Compare runs: the estimates of each, and the paired difference of every two on the facts that both scored.

    :param runs: two or more, finished; or one with several scorings.
    :param scoring: which to take of runs that have several; with more than one of a run, these are compared, too.
    :param metrics: "accuracy", "mrr", "hits@K"; the first decides, the others are secondary.
    :param cluster: sampling unit of the intervals, as for :class:`Result`.
    :param to_first: only the pairs with the first run.
    :param margin: smaller differences do not matter, in units of the primary metric: 0.02 is 2 points.
    :param detect: also say how many facts, units and seeds would detect this difference in 80 % of cases.
    :param seeds: the runs are of two models, each trained with so many seeds: all runs of one, then all of the other.
    :returns: ``tables``, ``to_text()``, ``to_markdown()``, ``to_latex()``, ``to_json()``; ``runs`` and ``pairs`` with
        every number.
    :raises BadInput: what is wrong with any of the runs, at once; no pair that can be compared.
    """
    names = separated(scoring), separated(metrics)
    return compare_folders(folders_of(runs), *names, cluster, to_first, margin, detect, seeds)


def diff(
    before: str | Path | Result,
    after: str | Path | Result,
    scoring: Sequence[str] = (),
    by: str = "",
    k: int = 1,
    listed: int = 0,
    cluster: str = "",
) -> Change:
    """One model before and after training, editing or unlearning: what it learnt, forgot, kept and never knew.

    :param scoring: which to take of runs that have several: one.
    :param by: "relation", "direction" or any key of the queries' groups: each group for itself, too.
    :param k: a fact is known where its right answer is among the first *k*.
    :param listed: show so many facts learnt, and forgotten; ``to_json()`` has all.
    :param cluster: as for :func:`compare`.
    :returns: as :func:`compare` does; ``parts`` has every number and every fact.
    :raises BadInput: what is wrong with either run, at once; no fact in common, other candidates.
    """
    first, second = folders_of([before, after])
    return diff_folders(first, second, separated(scoring), by, k, listed, cluster)


def plots(runs: Sequence[str | Path | Result]) -> dict[str, Any]:
    """Charts of runs side by side, as Altair objects that a notebook shows and ``save`` writes as PNG or SVG: accuracy,
    ranks, confidence, calibration, relations, templates, lengths, whichever there is something to draw for.

    :returns: name → chart.
    :raises BadInput: what is wrong with any of the runs, at once.
    :raises MissingExtra: Altair is not installed.
    """
    from fathom.report.charts import plots

    return plots(folders_of(runs))


def write_report(
    runs: Sequence[str | Path | Result],
    out: str | Path = "report.html",
    cluster: str = "",
    title: str = "",
    groups: str | Path | None = None,
) -> Report:
    """Runs in one self-contained HTML file: numbers, charts that filter each other, and every answer.

    :param runs: finished ones, of any data and probes; what is wrong with some is told in the page.
    :param out: the file.
    :param cluster: what queries are drawn by, for the intervals, as for :class:`Result`.
    :param title: what stands at its head.
    :param groups: a JSON Lines file with further groups of the queries, such as a planted model's ``planted.jsonl``.
    :returns: its ``path`` and ``notes`` on what it does not show.
    :raises BadInput: none of the runs can be shown.
    :raises MissingExtra: a library that the page needs is not installed.
    """
    from fathom.report.page import report

    return report([run.folder if isinstance(run, Result) else run for run in runs], out, cluster, title, groups)


def _model(model: Asked, options: ProbeOptions) -> Any:
    """What the options make of a name, or the model itself where they can be asked of it."""
    if isinstance(model, str | Path):
        return open_model(str(model), options) if options.engine == HERE else str(model)  # by the workers
    if not isinstance(model, AnyModel):
        raise BadInput(f"a {type(model).__name__} is not a model for Fathom: wrap_model(network, tokenizer) makes one")
    check_loaded(model, options)
    return model


def _collect(faults: list[str], step: Any) -> Any:
    """What *step* gives, or None with its faults added to the list: so that all of them are shown at once."""
    try:
        return step()
    except MissingExtra:
        raise
    except BadInput as error:
        faults += error.faults
    except FathomError as error:
        faults.append(str(error))
    return None
