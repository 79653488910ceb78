"""Fathom in Python: ``fathom.probe("statement", model="gpt2", data="BEAR").summary()``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from fathom.data.graph.queries import link_queryset
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import check
from fathom.errors import BadInput, FathomError, MissingExtra, all_of
from fathom.formats import read
from fathom.links.options import LinkOptions
from fathom.models.base import Model
from fathom.options import parse_options, separated
from fathom.probes import PROBES
from fathom.probes.base import Progress
from fathom.probes.options import ProbeOptions
from fathom.report import charts, page
from fathom.report.page import Report
from fathom.results.changed import Change
from fathom.results.changed import diff as diff_folders
from fathom.results.compared import COMPARED, Comparison
from fathom.results.compared import compare as compare_folders
from fathom.results.summary import RunNumbers, Summary
from fathom.run import run
from fathom.store.files import write_json
from fathom.store.folder import RunFolder


class Result:
    """A finished run.

    :param folder: where it is kept.
    :param cluster: what queries are drawn by, for the intervals: "query", "relation", "subject", "answer", or a key of
        the data's groups; by default relations where there are ten or more of like size, else the facts within each.
    """

    def __init__(self, folder: RunFolder, cluster: str = "") -> None:
        self.folder, self.cluster = folder, cluster

    def table(self) -> pa.Table:
        """All predictions (schema in docs/run-folder.md) with the columns of their queries beside them."""
        predictions, queries = self.folder.predictions(), self.folder.queries()
        row = {query: number for number, query in enumerate(queries.column("query_id").to_pylist())}
        beside = queries.take([row[query] for query in predictions.column("query_id").to_pylist()])
        for name in beside.column_names[1:]:
            predictions = predictions.append_column(name, beside.column(name))
        return predictions

    def to_pandas(self) -> Any:
        """:meth:`table` as a data frame.

        :raises MissingExtra: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise MissingExtra("pandas", "pandas") from error
        columns = self.table()
        groups = columns.column("groups").to_pylist()
        frame = columns.drop_columns(["groups"]).to_pandas()
        for name in dict.fromkeys(key for group in groups for key, _ in group):
            frame[name] = [dict(group).get(name) for group in groups]
        return frame

    def _repr_html_(self) -> str:
        """How a notebook shows it: the tables of :meth:`summary`."""
        return self.summary()._repr_html_()

    def plots(self) -> dict[str, Any]:
        """Charts of this run, see :func:`plots`."""
        return plots([self])

    def summary(self, by: Sequence[str] = ()) -> Summary:
        """Accuracy, ranks and confidence with intervals.

        :param by: e.g. "relation", "cardinality", "template".
        """
        return self._told.summary(by)

    @property
    def keys(self) -> list[str]:
        """What the run can be broken down by."""
        return self._told.keys

    @cached_property
    def _told(self) -> RunNumbers:
        return RunNumbers(self.folder, self.cluster)

    def keep_metrics(self) -> Result:
        """Write ``metrics.json`` into the folder of the run."""
        write_json(self.folder.path / "metrics.json", self._told.json())
        return self


def probe(
    name: str,
    model: str | Path | Model,
    data: str | Path | QuerySet,
    out: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Result:
    """Ask a model what it knows of the facts in *data*.

    :param name: "statement" (alias "bear"), "embedding" ("deer"), "vocabulary" ("lama"),
        "cloze", "ontology" ("ontoprobe"), "generation" ("kamel") or "choice".
    :param model: name or folder of a `transformers` model, or one from ``load_model`` or ``wrap_model``; for the choice
        probe also a :class:`fathom.models.server.ChatServer`, or its model's name with ``server="http://…/v1"``.
    :param data: a folder, the name of an embedded data set, or a query set.
    :param out: folder of the run; where it holds the same run unfinished, it goes on. None: a temporary one.
    :param options: see :class:`fathom.StatementOptions` and its like for the other probes.
    :raises BadInput: everything that is wrong with options, data and model, at once.
    """
    entry = PROBES.find(name)
    kind = entry.options
    if not issubclass(kind, ProbeOptions):
        raise BadInput(f"the {entry.name} probe asks a {entry.asks}: fathom kgc evaluate, or fathom.evaluate_links")
    faults: list[str] = []
    chosen = _collect(faults, lambda: parse_options(kind, options))
    queryset = _collect(faults, lambda: _read(data))
    if queryset is not None and chosen is not None:
        _collect(faults, lambda: check(queryset, chosen.of(queryset).selection()))
    here = chosen is not None or "server" not in options  # else the name is not of a model to load
    local = _collect(faults, lambda: _model(model, chosen or kind())) if here else None
    if faults or chosen is None or queryset is None or local is None:
        raise BadInput(faults)
    folder = run(entry, local, queryset, chosen, out or tempfile.mkdtemp(prefix="fathom-"), progress)
    return Result(folder, chosen.cluster).keep_metrics()


def train_links(
    model: str, data: str | Path | QuerySet, out: str | Path, progress: Progress | None = None, **options: Any
) -> dict[str, Any]:
    """Train a link predictor of a knowledge graph into the folder *out*, or go on with a training that was stopped.

    :param model: "simkgc", "knn-kge", "kg-bert", "kgt5", "genkgc", "prompted", or a model of PyKEEN, such as "TransE".
    :param options: of its kind, see ``fathom kgc train --model KIND --help``; ``preset="sakai2024"`` for a paper's.
    :returns: the content of its ``link.json``: ``ended`` says why and where.
    :raises BadInput: everything that is wrong with options and data, at once.
    :raises RunFailed: NaN, a full disk.
    """
    from fathom.links import find as find_kind
    from fathom.links import folder

    kind = find_kind(model)
    chosen, queryset = all_of(lambda: kind.parse(model, options), lambda: _read(data))
    return folder.train_links(model, queryset, chosen, out, progress)


def evaluate_links(
    model: str | Path,
    data: str | Path | QuerySet,
    out: str | Path | None = None,
    progress: Progress | None = None,
    asking: dict[str, Any] | None = None,
    **options: Any,
) -> Result:
    """Ask a trained link predictor for the heads and tails of a graph's triples, among all entities, filtered.

    :param model: a folder that :func:`train_links` made.
    :param data: its graph, or a world made of it.
    :param asking: options of its kind to ask it with instead of those it was trained with.
    :param options: see :class:`fathom.links.options.LinkOptions`.
    :raises BadInput: everything that is wrong with model, options and data, at once.
    """
    from fathom.links.folder import open_links

    chosen, queryset = all_of(lambda: parse_options(LinkOptions, options), lambda: _read(data))
    predictor = open_links(model, queryset, chosen.device, asking)
    asked = link_queryset(queryset, chosen.directions)
    folder = run("link", predictor, asked, chosen, out or tempfile.mkdtemp(prefix="fathom-"), progress)
    return Result(folder, chosen.cluster).keep_metrics()


def _read(data: str | Path | QuerySet) -> QuerySet:
    return data if isinstance(data, QuerySet) else read(data)


def open_run(path: str | Path) -> Result:
    """A run made before.

    :raises BadInput: not a run.
    """
    return Result(RunFolder.open(path))


def compare(
    runs: Sequence[str | Path | Result],
    scoring: Sequence[str] = (),
    metrics: Sequence[str] = COMPARED,
    cluster: str = "",
    to_first: bool = False,
) -> Comparison:
    """Runs side by side: each one's numbers, and the difference of every pair on the facts that both ranked.

    :param runs: two or more, finished; or one with several scorings.
    :param scoring: which to take of runs that have several; with more than one of a run, these are compared, too.
    :param metrics: "accuracy", "mrr", "hits@K".
    :param cluster: what queries are drawn by, for the intervals, as for :class:`Result`; by default by subject, too,
        where there are ten relations or more and subjects repeat.
    :param to_first: only the pairs with the first run.
    :returns: ``tables``, ``to_text()``, ``to_markdown()``, ``to_latex()``, ``to_json()``; ``runs`` and ``pairs`` with
        every number.
    :raises BadInput: what is wrong with any of the runs, at once; no pair that can be compared.
    """
    return compare_folders(_folders(runs), separated(scoring), separated(metrics), cluster, to_first)


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
    first, second = _folders([before, after])
    return diff_folders(first, second, separated(scoring), by, k, listed, cluster)


def plots(runs: Sequence[str | Path | Result]) -> dict[str, Any]:
    """Charts of runs side by side, as Altair objects that a notebook shows and ``save`` writes as PNG or SVG: accuracy,
    ranks, confidence, calibration, relations, templates, lengths, whichever there is something to draw for.

    :returns: name → chart.
    :raises BadInput: what is wrong with any of the runs, at once.
    :raises MissingExtra: Altair is not installed.
    """
    return charts.plots(_folders(runs))


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
    return page.report([run.folder if isinstance(run, Result) else run for run in runs], out, cluster, title, groups)


def _folders(runs: Sequence[str | Path | Result]) -> list[RunFolder]:
    return all_of(*(partial(_folder, run) for run in runs))


def _folder(run: str | Path | Result) -> RunFolder:
    return run.folder if isinstance(run, Result) else RunFolder.open(run)


def _model(model: str | Path | Model, options: ProbeOptions) -> Any:
    """What the options make of a name, or the model itself where they can be asked of it."""
    if isinstance(model, str | Path):
        return options.open_model(str(model))
    if not hasattr(model, "identity"):
        raise BadInput(f"a {type(model).__name__} is not a model for Fathom: wrap_model(network, tokenizer) makes one")
    options.check_loaded(model)
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
