"""``fathom report``: runs in one self-contained HTML file."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from html import escape
from importlib import resources
from itertools import chain, permutations
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fathom._version import VERSION
from fathom.base.errors import BadInput, FathomError, all_of, optional
from fathom.base.reading import opened
from fathom.probes.run.request import command_line
from fathom.results.compare import COMPARED, compare_facts
from fathom.results.comparison import Comparison, pair_in_words
from fathom.results.facts import Shared
from fathom.results.formats import format_value
from fathom.results.loading import AnyRun, check_scored, distinguished, open_run, short_names
from fathom.results.metrics.table import Metric, metric
from fathom.results.samples import RELATION
from fathom.results.summary import RunNumbers, Summary
from fathom.results.tables import Table, to_html
from fathom.store.files import write_text
from fathom.store.folder import RunFolder
from fathom.store.outputs import check_output
from fathom.studies.report.charts import Drawing, Row, chart, classes_of, drawable, places_of, whole
from fathom.studies.report.evidence import (
    ANSWERS,
    MISSING,
    Array,
    Dimension,
    Evidence,
    Kinds,
    PredictionColumns,
    dimensions,
    kinds_of,
    label_of,
    narrow,
    showable,
    weights,
    weights_by_template,
    without_controls,
)
from fathom.studies.report.overview import (
    GLYPHS,
    PAIRS,
    RunSide,
    Slice,
    differing_settings,
    forests,
    side_of,
    slices,
    verdicts,
)

LIBRARIES = ("altair", "itables", "jinja2")
CHARTS = "vega.js.gz"
"""Vega, Vega-Lite and Vega-Embed in one, as ``vl_convert.javascript_bundle`` of version 1.9.0 writes them."""
MODULES = ("dom", "evidence", "choice", "charts", "compare", "tokens", "facts", "telling", "controls", "main")
"""Parts of the script; each imports only from those before it."""
GENERATOR = b'<meta name="generator" content="Fathom'
"""Marks a report, which alone may be replaced by another."""
CELLS = {"both": "both right", "first": "", "second": "", "neither": "both wrong", "undecided": "undecided"}
"""Facts by what two runs have right; the script names the runs."""


class Report(NamedTuple):
    """A written report.

    :param runs: number of runs that it shows.
    :param notes: what it does not show, and why.
    """

    path: Path
    runs: int
    notes: tuple[str, ...]


class Opening(NamedTuple):
    """What the first screen shows before the plot, in addition to the verdicts."""

    sentences: Sequence[str] = ()
    tables: Sequence[Table] = ()


class _Run(NamedTuple):
    """A run in the report. :param sides: one for each scoring."""

    folder: RunFolder
    sides: Sequence[RunSide]
    summary: Summary

    def called(self, label: str, names: Iterator[str]) -> _Run:
        """Return the run with a label, and the next *names* of its sides."""
        sides = [side._replace(name=next(names)) for side in self.sides]
        return _Run(self.folder, sides, replace(self.summary, model=label))


def report(
    runs: Sequence[AnyRun],
    out: str | Path = "report.html",
    cluster: str = "",
    title: str = "",
    groups: str | Path | None = None,
    studies: Sequence[tuple[str, list[Table]]] = (),
    overwrite: bool = False,
    pictures: Mapping[str, Sequence[Path]] = MappingProxyType({}),
    opening: Opening = Opening(),
) -> Report:
    """Write runs to one self-contained HTML file: numbers, charts that filter each other, and every answer.

    The page lists runs that cannot be shown, with the reason.

    :param runs: finished runs, of any data and probes.
    :param cluster: sampling unit of the queries, for the intervals; see :mod:`fathom.results.samples`.
    :param title: heading of the page.
    :param groups: JSON Lines with further groups of the queries, as :meth:`RunFolder.grouped_by` takes them.
    :param studies: names and tables of studies.
    :param overwrite: replace a file that is no report of Fathom.
    :param pictures: PNG files of these studies, by the study's name.
    :param opening: sentences and tables to begin with.
    :raises BadInput: none of the runs can be shown; *out* is a folder; *groups* cannot be read.
    :raises MissingExtra: a library that the page needs is not installed.
    :raises RunFailed: *out* cannot be written.

    >>> page = fathom.write_report(["reference:Gemma-3-270m"], "gemma.html")
    """
    libraries = {name: optional(name, "report") for name in LIBRARIES}
    path = Path(out)
    if not path.is_file() or not _is_report(path):
        check_output(path, overwrite=overwrite)
    folders, notes = _open_all(runs)
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
    predictions = evidence.finish()
    labels = distinguished([{**run.sides[0].facts.distinguishing, "scoring": ""} for run in shown])
    names = iter([view.name for view in evidence.views])
    shown = [run.called(showable(label), names) for run, label in zip(shown, labels, strict=True)]
    comparison = _compare([side for run in shown for side in run.sides], metrics, notes)
    title = title or f"Fathom: {len(shown)} run{'s' if len(shown) > 1 else ''}"
    tables = [(name, [*map(_image, pictures.get(name, ())), *_html(found, f"{name}: ")]) for name, found in studies]
    page = _page(libraries, evidence, predictions, shown, comparison, notes, title, tables, opening)
    write_text(path, map(without_controls, page))  # with names of any kind in it
    return Report(path, len(shown), tuple(notes))


def _is_report(path: Path) -> bool:
    with opened(path, unpack=False) as file:
        return GENERATOR in file.read(1000)


def _open_all(runs: Sequence[AnyRun]) -> tuple[list[RunFolder], list[str]]:
    """Open each finished run once. :returns: the folders, and notes on the others."""
    folders: dict[Path, RunFolder] = {}
    notes: list[str] = []
    for run in runs:
        try:
            folder = open_run(run)
            folder.refuse_unfinished()
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
    sides = [side_of(numbers, facts, metrics) for facts in evidence.add_run(folder, numbers.rows, model)]
    for side in sides:
        side.facts.release(metrics, shared)
    return _Run(folder, sides, numbers.summary())


def _page(
    libraries: Mapping[str, Any],
    evidence: Evidence,
    predictions: PredictionColumns,
    shown: Sequence[_Run],
    comparison: Comparison | None,
    notes: list[str],
    title: str,
    studies: Sequence[tuple[str, list[str]]],
    opening: Opening,
) -> Iterator[str]:
    dims, kinds, of_runs = dimensions(evidence, predictions), kinds_of(evidence, predictions), whole(evidence.views)
    cut = slices(comparison, [RELATION, *evidence.keys]) if comparison else []
    drawn = drawable(evidence.views, dims, predictions)
    about = [_about(drawing, dims, rows, of_runs) for drawing, rows in drawn]
    sides = [side for run in shown for side in run.sides]
    plots = forests(sides, [metric(name) for name in COMPARED])
    ordered = [line.name for plot in plots[:1] for line in plot.lines] or [side.name for side in sides]
    ranked = sorted(zip(evidence.views, sides, strict=True), key=lambda pair: ordered.index(pair[1].name))
    files = resources.files("fathom.studies.report") / "assets"
    itables = resources.files("itables") / "html"
    page = libraries["jinja2"].Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return page.from_string(files.joinpath("report.html").read_text(encoding="utf-8")).generate(  # type: ignore[no-any-return]
        title=title,
        version=VERSION,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        data=list(dict.fromkeys(view.data for view in evidence.views)),
        facts=len(evidence.facts),
        notes=notes,
        views=evidence.views,
        summaries=[(run.summary.model, _html(run.summary.tables, f"{run.summary.model}: ")) for run in shown],
        circumstances=[(run.summary.model, circumstances_of(run.folder)) for run in shown],
        answer=dict.fromkeys([*opening.sentences, *verdicts(comparison, [run.summary for run in shown])]),
        opening=_html(opening.tables),
        forests=plots,
        glyphs=GLYPHS,
        ordered=ordered,
        settings=differing_settings(ranked),
        comparison=_html(comparison.tables) if comparison else [],
        studies=studies,
        drawings=[drawing for drawing, _ in drawn],
        slices=bool(cut),
        cells=CELLS,
        choices=[
            ("relation", "Relation", dims["relation"].labels),
            ("slice", "Kind of fact", kinds.labels),
            ("template", "Template", dims["template"].labels),
            ("rank", "Rank of the right answer", dims["rank"].labels),
            ("confidence", "Probability of the first answer", dims["confidence"].labels),
            ("length", "Tokens of the right answer", dims["length"].labels),
        ],
        few_pairs=comparison is not None and len(comparison.runs) * (len(comparison.runs) - 1) > 2 * PAIRS,
        style=files.joinpath("report.css").read_text(encoding="utf-8"),
        # The modules as one, without their imports and exports.
        script="\n".join(
            re.sub(r"^(import .*;\n|export )", "", files.joinpath(f"{name}.js").read_text("utf-8"), flags=re.MULTILINE)
            for name in MODULES
        ),
        licences=files.joinpath("licences.txt").read_text(encoding="utf-8"),
        charts_code=packed(gzip.decompress(files.joinpath(CHARTS).read_bytes()).decode("utf-8")),
        table_code=packed(itables.joinpath("dt_bundle.js").read_text(encoding="utf-8")),
        table_style=packed(itables.joinpath("dt_bundle.css").read_text(encoding="utf-8")),
        evidence=packed_evidence(evidence, predictions, dims, kinds, about, cut, *_of_pairs(comparison, evidence)),
    )


def _of_pairs(comparison: Comparison | None, evidence: Evidence) -> tuple[dict[str, str], dict[str, str]]:
    """Return why pairs of views are not compared, in either order, and the verdicts on the others."""
    place = {view.name: number for number, view in enumerate(evidence.views)}
    if comparison is None:
        why = "These runs are not compared: the reason is in Overview."
        return {f"{first}-{second}": why for first, second in permutations(place.values(), 2)}, {}
    of_pairs = {(pair.first, pair.second): pair_in_words(pair, comparison.metrics[0]) for pair in comparison.pairs}
    whys = {(apart.first, apart.second): f"Not compared: {apart.why}" for apart in comparison.not_compared}
    refused, sentences = (
        {
            f"{place[first]}-{place[second]}": showable(text)
            for names, text in texts.items()
            for first, second in (names, names[::-1])
        }
        for texts in (whys, of_pairs)
    )
    return refused, sentences


def circumstances_of(folder: RunFolder) -> dict[str, str]:
    """Return how and where a run was made, as the page lists it."""
    about = folder.manifest["circumstances"]
    command, versions = "", about.get("versions", {})
    with suppress(FathomError, KeyError):  # an extension that is not installed, or a run that recorded none
        command = command_line(about["command"], folder.path)
    cells = {
        "Command": command,
        "Engine": about.get("engine"),
        "Device": about.get("device"),
        "Versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "Folder": folder.path,
    }
    return {name: showable(str(value or "not recorded")) for name, value in cells.items()}


def _about(
    drawing: Drawing, dims: Mapping[str, Dimension], rows: Sequence[Row], of_runs: Sequence[Row]
) -> dict[str, Any]:
    """Return what the script needs of a chart; the page has its title already."""
    last = drawing.brush[-1] if drawing.brush else None
    return {
        "name": drawing.name,
        "keys": drawing.keys,
        # The last key of the brush selects facts; a run before it selects whose predictions these are.
        "of": last,
        "brush": [[key, key if key == last else f"{last}.{key}"] for key in drawing.brush],
        "classes": classes_of(drawing.keys, dims),
        "spec": chart(drawing, dims, rows, of_runs).properties(title="").to_dict(),
    }


def _html(tables: Iterable[Table], prefix: str = "") -> list[str]:
    """:param prefix: of each title, so that titles differ."""
    return [to_html(replace(table, title=prefix + table.title)) for table in tables]


def _image(file: Path) -> str:
    content = base64.b64encode(file.read_bytes()).decode("ascii")
    return f'<img alt="{escape(file.stem)}, drawn from the tables" src="data:image/png;base64,{content}">'


def _compare(sides: Sequence[RunSide], metrics: Sequence[Metric], notes: list[str]) -> Comparison | None:
    """Compare all runs with something scored; None if there are not two, or none can be compared."""
    scored = [side for side in sides if side.facts.scored_facts]
    if len(scored) < 2:
        return None
    try:
        all_of(*(partial(check_scored, side.facts) for side in scored))
        return compare_facts([side.facts for side in scored], metrics, names=[side.name for side in scored])
    except BadInput as error:
        notes += [f"not compared: {fault}" for fault in error.faults]
        return None


# --- the evidence as the report's script reads it: the length of a JSON header, the header, then columns of numbers


UNSURE = 65535
"""In the column of confidences: unknown. The script has the same number."""
_KINDS = {
    "u1": "Uint8Array",
    "u2": "Uint16Array",
    "u4": "Uint32Array",
    "f4": "Float32Array",
    "i1": "Int8Array",
    "i2": "Int16Array",
    "i4": "Int32Array",
}


def packed(text: str) -> str:
    """Compress a text for a text element of a page."""
    return "".join(_for_page([text.encode("utf-8")]))


def packed_evidence(
    evidence: Evidence,
    predictions: PredictionColumns,
    dims: Mapping[str, Dimension],
    kinds: Kinds,
    drawings: Sequence[Mapping[str, Any]],
    cut: Sequence[Slice],
    refused: Mapping[str, str],
    verdicts: Mapping[str, str],
) -> Iterator[str]:
    """Yield all that the script shows and counts, in pieces.

    :param drawings: with specifications and classes.
    :param refused: why pairs of views are not compared, by keys such as "0-1"; *verdicts* of the others.
    """
    columns = _columns(evidence, predictions, dims)
    for drawing in drawings:
        columns[f"of {drawing['name']}"] = partial(places_of, drawing["keys"], dims, predictions)
    shapes = {}
    for name, make in columns.items():
        column = make()
        shapes[name] = column.dtype, len(column)
    header = {
        "columns": [
            {"name": name, "kind": _KINDS[kind.str[1:]], "length": length} for name, (kind, length) in shapes.items()
        ],
        "count": len(predictions.fact),
        "listed": ANSWERS,
        "views": [
            {key: getattr(view, key) for key in ("name", "probe", "scoring", "checkpoint")} for view in evidence.views
        ],
        "texts": list(evidence.pool),
        "facts": list(map(showable, evidence.facts)),
        "gold": evidence.gold,
        "slicesOf": kinds.of_facts,
        "labels": {name: list(dimension.labels) for name, dimension in dims.items()} | {"slice": kinds.labels},
        "drawings": list(drawings),
        "slices": _slice_rows([view.name for view in evidence.views], cut),
        "refused": refused,
        "ofPair": verdicts,
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8")
    text += b" " * (-len(text) % 4)
    return _for_page(chain([struct.pack("<I", len(text)), text], (make().tobytes() for make in columns.values())))


def _for_page(contents: Iterable[bytes]) -> Iterator[str]:
    """Compress with gzip, and encode as base64."""
    compressor, waiting = zlib.compressobj(9, wbits=31), b""
    for content in contents:
        waiting += compressor.compress(content)
        whole = len(waiting) - len(waiting) % 3  # of which base64 makes whole characters
        yield base64.b64encode(waiting[:whole]).decode("ascii")
        waiting = waiting[whole:]
    yield base64.b64encode(waiting + compressor.flush()).decode("ascii")


def _columns(
    evidence: Evidence, predictions: PredictionColumns, dims: Mapping[str, Dimension]
) -> dict[str, Callable[[], Array]]:
    """Return functions that make the columns: together these are larger than what they are made of.

    Columns of facts: relation, subject. Of predictions: the others.
    """
    relations = {label: place for place, label in enumerate(dims["relation"].labels)}
    texts, tokens = list(evidence.pool), evidence.tokens
    of_tokens = {
        "tokenCount": lambda: narrow(tokens.counts.ravel()),
        "tokenText": lambda: narrow(tokens.texts),
        "tokenValue": lambda: narrow(tokens.values),
    }

    def by_view(values: Callable[[PredictionColumns], Array]) -> Array:
        return np.concatenate([values(view) for view in predictions.each_view()])

    return {
        "relation": lambda: narrow(np.array([relations[texts[index]] for index in evidence.relation])),
        "subject": lambda: narrow(np.array(evidence.subject)),
        "view": lambda: narrow(predictions.view),
        "fact": lambda: narrow(predictions.fact),
        "weight": lambda: by_view(lambda view: weights(view).astype("<f4")),
        "alone": lambda: by_view(lambda view: weights_by_template(view).astype("<f4")),
        "right": lambda: predictions.hit.astype("<f4"),
        "rank": lambda: predictions.rank.astype("<f4"),
        "ties": lambda: narrow(predictions.ties),
        "confidence": lambda: by_view(lambda view: _sure(view.confidence)),
        "pattern": lambda: narrow(predictions.prompt),
        "reason": lambda: narrow(predictions.reason),
        # Best answers of all predictions, then second best ones: equal values next to each other compress well.
        "answer": lambda: narrow(predictions.answers.T.ravel()),
        "golden": lambda: narrow(predictions.right),
        "value": lambda: _with_least_missing(predictions.values.T.ravel()),
        "best": lambda: narrow(predictions.gold),
        "bestValue": lambda: _with_least_missing(predictions.gold_value),
        "template": lambda: narrow(dims["template"].codes),
        **{f"{name}Class": partial(narrow, dims[name].codes) for name in ("rank", "confidence", "length")},
        **(of_tokens if len(tokens.texts) else {}),
    }


def _sure(confidence: Array) -> Array:
    valid = ~np.isnan(confidence)
    return np.where(valid, np.round(np.where(valid, confidence, 0) * np.float64(UNSURE - 1)), UNSURE).astype("<u2")


def _with_least_missing(thousandths: Array) -> Array:
    """Return them in the least width that also holds a smaller number, which replaces :data:`MISSING`."""
    present = thousandths != MISSING
    most, least = int(thousandths.max(where=present, initial=0)), int(thousandths.min(where=present, initial=0))
    kind = narrow(np.array([most + 1, min(least - 1, -1)])).dtype
    return np.where(present, thousandths, np.iinfo(kind).min).astype(kind)


def _slice_rows(names: Sequence[str], cut: Sequence[Slice]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each pair of views "0-1", and of the reversed pair, as the table shows them."""
    place = {name: number for number, name in enumerate(names)}
    rows: dict[str, list[dict[str, Any]]] = {}
    for part in cut:
        key, value = showable(part.key), showable(part.value)
        label = label_of(key, value)
        choice = ("relation", value) if part.key == RELATION else ("slice", label)
        about = {"label": label, "choice": choice[0], "value": choice[1]}
        for sign in (1, -1):
            first, second = (place[part.first], place[part.second])[::sign]
            rows.setdefault(f"{first}-{second}", []).append(about | {"cells": _cells(part, sign)})
    return rows


def _cells(part: Slice, sign: int) -> list[str]:
    """Return counts, shares, and difference and interval in points. :param sign: −1 for the reversed pair."""
    shares = [format_value(mean, ".1%") for mean in (part.of_first, part.of_second)[::sign]]
    number = f"{100 * sign * part.number.value:+.1f}"
    ends = [f"{100 * sign * end:+.1f}" for end in (part.number.low, part.number.high) if end is not None][::sign]
    p = "–" if part.adjusted is None else "< 0.001" if part.adjusted < 0.001 else f"{part.adjusted:.3f}"
    return [str(part.facts), *shares, number, " to ".join(ends) or "–", p]
