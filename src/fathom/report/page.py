"""``fathom report``: runs in one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from itertools import permutations
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from fathom._version import VERSION
from fathom.errors import BadInput, FathomError, all_of
from fathom.metrics.table import Metric, metric
from fathom.report.charts import Drawing, chart, classes_of, library, there, whole
from fathom.report.counting import Dimension, Kinds, dimensions, kinds_of
from fathom.report.evidence import Evidence, showable, without_controls
from fathom.report.kept import tables_of_studies
from fathom.report.pack import OfPairs, p_value, packed, packed_evidence, points, templates_of
from fathom.report.slices import PAIRS, Slice, slices
from fathom.results.compare import COMPARED, compare_facts
from fathom.results.comparison import ComparedPair, Comparison
from fathom.results.facts import RunFacts, Shared
from fathom.results.loading import check_scored
from fathom.results.names import short_names
from fathom.results.samples import RELATION
from fathom.results.summary import RunNumbers, Summary
from fathom.results.tables import Table, to_html
from fathom.store.files import write_text
from fathom.store.folder import RunFolder

LIBRARIES = ("altair", "itables", "jinja2", "vl_convert")
CELLS = {
    "both": "both right",
    "first": "only the first right",
    "second": "only the second right",
    "neither": "both wrong",
    "undecided": "undecided",
}


class Report(NamedTuple):
    """What was made.

    :param path: of the file.
    :param runs: how many it shows.
    :param notes: what it does not show, and why.
    """

    path: Path
    runs: int
    notes: tuple[str, ...]


class _Run(NamedTuple):
    """One that is shown. :param sides: in each of its scorings."""

    folder: RunFolder
    sides: tuple[RunFacts, ...]
    summary: Summary

    @property
    def scorings(self) -> list[str]:
        """Those in which something was scored."""
        return [side.scoring for side in self.sides if side.scored_facts]


def report(
    runs: Sequence[str | Path | RunFolder],
    out: str | Path,
    cluster: str = "",
    title: str = "",
    groups: str | Path | None = None,
) -> Report:
    """Write *out*; what is wrong with some of the runs is told in it, and the others are shown.

    :param runs: finished ones, of any data and probes.
    :param cluster: what queries are drawn by, for the intervals; see :mod:`fathom.results.samples`.
    :param title: what stands at its head.
    :param groups: JSON Lines with further groups of the queries, as :meth:`RunFolder.grouped_by` takes them.
    :raises BadInput: none of the runs can be shown; *out* is a folder; *groups* cannot be read.
    :raises MissingExtra: a library that the page needs is not installed.
    :raises RunFailed: *out* cannot be written.
    """
    needed = {name: library(name) for name in LIBRARIES}
    path = Path(out)
    if path.is_dir():
        raise BadInput(f"{path} is a folder: give the file to write, such as {path / 'report.html'}")
    folders, notes = _opened(runs)
    if groups is not None:
        folders = [folder.grouped_by(Path(groups)) for folder in folders]
    evidence, shown = Evidence(), []
    metrics, shared = [metric(name) for name in COMPARED], Shared()
    for folder, model in zip(folders, short_names(folders), strict=True):
        try:
            shown.append(_add(evidence, folder, model, cluster, metrics, shared))
        except FathomError as error:  # the rest of the report is made
            notes += str(error).splitlines()
    if not shown:
        raise BadInput(notes)
    comparison = _compared(shown, metrics, notes)
    page = _page(needed, evidence, shown, comparison, notes, title or f"Fathom: {_counted(len(shown), 'run')}")
    write_text(path, map(without_controls, page))  # with names of any kind in it
    return Report(path, len(shown), tuple(notes))


def _opened(runs: Sequence[str | Path | RunFolder]) -> tuple[list[RunFolder], list[str]]:
    """Each once, and what is wrong with the others."""
    folders: dict[Path, RunFolder] = {}
    notes: list[str] = []
    for run in runs:
        try:
            folder = run if isinstance(run, RunFolder) else RunFolder.open(run)
            if not folder.is_complete():
                raise BadInput(f"{folder.path} is unfinished: type its command again, it goes on where it stopped")
            if folders.setdefault(folder.path.resolve(), folder) is not folder:
                notes.append(f"{folder.path} is given twice: it is shown once")
        except FathomError as error:
            notes += str(error).splitlines()
    if not folders:
        raise BadInput(notes or "expected a run or more, found none")
    return list(folders.values()), notes


def _add(
    evidence: Evidence, folder: RunFolder, model: str, cluster: str, metrics: Sequence[Metric], shared: Shared
) -> _Run:
    """:raises BadInput: its files are damaged, or it has no predictions."""
    numbers = RunNumbers(folder, cluster)
    if not numbers.rows.scorings:
        raise BadInput(f"{folder.path} has no predictions")
    summary = numbers.summary()
    outcomes = evidence.add_run(folder, numbers.rows, model)
    return _Run(folder, tuple(outcome.release(metrics, shared) for outcome in outcomes), summary)


def _page(
    needed: Mapping[str, Any],
    evidence: Evidence,
    shown: Sequence[_Run],
    comparison: Comparison | None,
    notes: list[str],
    title: str,
) -> Iterator[str]:
    """In pieces."""
    found = evidence.finish()
    dims = dimensions(evidence, found)
    cut = _slices(comparison, evidence) if comparison else []
    kinds, told = kinds_of(evidence, found), whole(evidence.views)
    drawn = there(evidence, dims, found)
    about = [_about(one, dims, chart(one, dims, rows, told)) for one, rows in drawn]
    studies, faults = tables_of_studies(run.folder.path for run in shown)
    files = resources.files("fathom.report") / "assets"
    itables = resources.files("itables") / "html"
    page = needed["jinja2"].Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(files.joinpath("report.html").read_text(encoding="utf-8")).generate(  # type: ignore[no-any-return]
        title=title,
        version=VERSION,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        data=list(dict.fromkeys(view.data for view in evidence.views)),
        facts=len(evidence.facts),
        notes=[*notes, *faults],
        views=evidence.views,
        summaries=[(run.folder.path, _html(run.summary.tables, f"{run.folder.path}: ")) for run in shown],
        answer=comparison.answer if comparison else [sentence for run in shown for sentence in run.summary.answer],
        comparison=_html(comparison.tables) if comparison else [],
        studies=[(name, _html(tables, f"{name}: ")) for name, tables in studies],
        drawings=[one for one, _ in drawn],
        slices=bool(cut),
        cells=CELLS,
        choices=_choices(dims, kinds, bool(templates_of(found, (len(evidence.views), len(evidence.facts))))),
        few_pairs=comparison is not None and len(comparison.runs) * (len(comparison.runs) - 1) > 2 * PAIRS,
        style=files.joinpath("report.css").read_text(encoding="utf-8"),
        script=files.joinpath("report.js").read_text(encoding="utf-8"),
        licences=files.joinpath("licences.txt").read_text(encoding="utf-8"),
        charts_code=packed(needed["vl_convert"].javascript_bundle()),
        table_code=packed(itables.joinpath("dt_bundle.js").read_text(encoding="utf-8")),
        table_style=packed(itables.joinpath("dt_bundle.css").read_text(encoding="utf-8")),
        evidence=packed_evidence(evidence, found, dims, kinds, about, cut, _of_pairs(comparison, evidence)),
    )


def _names(comparison: Comparison, evidence: Evidence) -> dict[str, str]:
    """Of views, by those of the comparison: it knows only runs that scored something, and tells these apart."""
    views = {(view.path, view.scoring): view.name for view in evidence.views}
    return {run.name: views[run.outcome.path, run.outcome.scoring] for run in comparison.runs}


def _of_pairs(comparison: Comparison | None, evidence: Evidence) -> OfPairs:
    """What the comparison says of each pair of views, either way round."""
    place = {view.name: number for number, view in enumerate(evidence.views)}
    refused: dict[str, str] = {}
    told: dict[str, str] = {}
    if comparison is None:
        why = "These runs are not compared: the reason stands at the top of the page."
        refused = {f"{one}-{other}": why for one, other in permutations(place.values(), 2)}
        return OfPairs(refused, told)
    names = _names(comparison, evidence)
    ways = ((1, "{0}-{1}"), (-1, "{1}-{0}"))
    for pair in comparison.pairs:
        one, other = place[names[pair.first]], place[names[pair.second]]
        told |= {key.format(one, other): _in_words(pair, sign) for sign, key in ways}
    for apart in comparison.not_compared:
        one, other = place[names[apart.first]], place[names[apart.second]]
        refused |= {key.format(one, other): f"Not compared: {showable(apart.why)}" for _, key in ways}
    return OfPairs(refused, told)


def _in_words(pair: ComparedPair, sign: int) -> str:
    """Return the verdict on the difference in accuracy. :param sign: −1 for the other way round."""
    own = pair.differences[0]
    if isnan(own.number.value):
        return own.number.note
    value, between = points(own.number._replace(low=pair.decision.low, high=pair.decision.high), sign)
    verdict = f"{pair.higher} is higher" if pair.higher else pair.decision.word
    p = p_value(pair.decision.p_value)
    return f"Over all {pair.facts:,} facts that both ranked: {value} points ({between}), {verdict} (p {p}, by Holm)."


def _slices(comparison: Comparison, evidence: Evidence) -> list[Slice]:
    """By the names of views."""
    names = _names(comparison, evidence)
    found = slices(comparison, [RELATION, *evidence.keys])
    return [own._replace(first=names[own.first], second=names[own.second]) for own in found]


def _about(drawing: Drawing, dims: Mapping[str, Dimension], drawn: Any) -> dict[str, Any]:
    """What the script needs to know of a chart; the page has its title already."""
    return {
        "name": drawing.name,
        "keys": drawing.keys,
        # Of the last of them facts are chosen; a run beside it says whose predictions they are.
        "of": drawing.brush[-1] if drawing.brush else None,
        "brush": [[key, key if key == drawing.brush[-1] else f"{drawing.brush[-1]}.{key}"] for key in drawing.brush],
        "classes": [] if drawing.pairs else classes_of(drawing.keys, dims),
        "spec": drawn.properties(title="").to_dict(),
    }


def _html(tables: Iterable[Table], of: str = "") -> list[str]:
    """:param of: before each title, so that no two are alike."""
    return [to_html(replace(table, title=of + table.title)) for table in tables]


def _choices(dims: Mapping[str, Dimension], kinds: Kinds, by_template: bool) -> list[tuple[str, str, Sequence[str]]]:
    """Of each field: what it chooses, its label, and what there is to choose."""
    return [
        ("relation", "Relation", dims["relation"].labels),
        ("slice", "Kind of fact", kinds.labels),
        ("template", "Template", dims["template"].labels if by_template else ()),
        ("rank", "Rank of the right answer", dims["rank"].labels),
        ("confidence", "Probability of the first answer", dims["confidence"].labels),
        ("score", "Score of the first answer", dims["score"].labels),
        ("length", "Tokens of the right answer", dims["length"].labels),
    ]


def _compared(shown: Sequence[_Run], metrics: Sequence[Metric], notes: list[str]) -> Comparison | None:
    """All runs of which something was scored; None where there are no two, or none that can be compared."""
    runs = [run for run in shown if run.scorings]
    scorings = dict.fromkeys(name for run in runs for name in run.scorings)
    if sum(len(run.scorings) for run in runs) < 2:
        return None
    sides = [
        side.called(model)
        for run, model in zip(runs, short_names([run.folder for run in runs]), strict=True)
        for scoring in scorings
        for side in run.sides
        if side.scoring == scoring
    ]
    try:
        all_of(*(partial(check_scored, side) for side in sides))
        return compare_facts(sides, metrics)
    except BadInput as error:
        notes += [f"not compared: {fault}" for fault in error.faults]
        return None


def _counted(number: int, of: str) -> str:
    return f"{number} {of}" if number == 1 else f"{number} {of}s"
