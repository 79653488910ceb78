"""``fathom plot``: the figure of a paper, runs with intervals and baselines, as a whole or by a key of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np

from fathom.base.errors import BadInput, all_of, optional
from fathom.results.facts import RunFacts
from fathom.results.loading import AnyRun, distinguished, open_run, short_names
from fathom.results.metrics.table import Metric, metric
from fathom.results.summary import RunNumbers
from fathom.results.tables import Axes, Plot, write_picture
from fathom.store.folder import RunFolder
from fathom.studies.report.charts import RUNS
from fathom.studies.report.overview import Forest, ForestLine, RunSide, forests, side_of

MARKS = {"random": "o", "majority": "D", "frequency": "D", "names": "^", "n-gram": "s"}
"""Marks of baselines, as in the report."""
MOST_PARTS = 60
"""Rows that can be read on one page."""
Drawn = Mapping[str, Sequence[ForestLine]]
"""Label of each row → its runs."""


def write_figure(
    runs: Sequence[AnyRun],
    out: str | Path,
    by: str = "",
    metric: str = "accuracy",
    cluster: str = "",
    groups: str | Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Draw runs with 95 % intervals and their baselines, over the facts that all of them scored.

    :param runs: finished runs. Each scoring is a line.
    :param out: file that ends in .pdf, .png or .svg.
    :param by: relation, direction or a key of the data's groups: a row for each value, the best first.
    :param metric: "accuracy", "mrr" or "hits@k".
    :param cluster: sampling unit of the queries; see :mod:`fathom.results.samples`.
    :param groups: JSON Lines with further groups of the queries, as :meth:`RunFolder.grouped_by` takes them.
    :param overwrite: replace a file that Fathom did not write.
    :raises BadInput: everything that is wrong with the runs; another ending, key or metric.
    :raises MissingExtra: matplotlib is not installed.

    >>> print(fathom.write_figure(["reference:Gemma-3-270m"], "gemma.pdf", by="relation"))
    gemma.pdf
    """
    optional("matplotlib", "report")
    path, wanted = Path(out), _with_baselines(metric)
    folders = all_of(*(partial(_finished, run, groups) for run in runs))
    different = list({run.path.resolve(): run for run in folders}.values())
    sides = _sides(different, wanted, by, cluster)
    if len(sides) > MOST_PARTS:
        raise BadInput(f"--by {by} has {len(sides):,} values, a figure holds {MOST_PARTS}: choose another key")
    drawn = {value: plots[0] for value, part in sides.items() if (plots := forests(part, [wanted]))}
    if not drawn:
        raise BadInput(f"no run has {metric}: choose another metric")
    write_picture(_picture(drawn, wanted, by), path, overwrite)
    return path


def _with_baselines(name: str) -> Metric:
    wanted = metric(name)
    if not wanted.has_baselines:
        raise BadInput(f"{name} has no baselines: expected accuracy, mrr or hits@k, such as hits@10")
    return wanted


def _finished(run: AnyRun, groups: str | Path | None) -> RunFolder:
    folder = open_run(run)
    folder.refuse_unfinished()
    return folder.grouped_by(Path(groups)) if groups is not None else folder


def _sides(folders: Sequence[RunFolder], wanted: Metric, by: str, cluster: str) -> dict[str, list[RunSide]]:
    """Return the runs that have each value of *by*; under "" all runs, without it."""
    each = [RunNumbers(folder, cluster) for folder in folders]
    outcomes = [
        (numbers, RunFacts(numbers.run, numbers.rows, scoring, model))
        for numbers, model in zip(each, short_names(folders), strict=True)
        for scoring in numbers.rows.scorings
    ]
    if not set.intersection(*(set(facts.facts) for _, facts in outcomes)):
        raise BadInput("the runs have no fact in common: draw those of each data set by themselves")
    labels = distinguished([facts.distinguishing for _, facts in outcomes])
    sides: dict[str, list[RunSide]] = {}
    for (numbers, facts), label in zip(outcomes, labels, strict=True):
        for value, part in (facts.parts(by) if by else {"": facts}).items():
            sides.setdefault(facts.declared.shown(by, value), []).append(side_of(numbers, part, [wanted], label))
    return sides


def _picture(drawn: Mapping[str, Forest], wanted: Metric, by: str) -> Plot:
    """:param drawn: a forest by each value of *by*; under "" that of whole runs."""
    rows: Drawn = {value: forest.lines for value, forest in drawn.items()}
    if by:
        rows = dict(sorted(rows.items(), key=lambda row: -_mean(row[1])))
    else:
        rows = {line.name: [line] for line in drawn[""].lines}
    marks = sum(map(len, rows.values()))
    limit = max(forest.limit for forest in drawn.values())
    height = 1.5 + 0.25 * max(marks, len(rows))
    facts = sum(forest.shared or 0 for forest in drawn.values())
    about = f"{wanted.name}{f' of {facts:,} facts' if facts else ''}, 95 % interval"
    return Plot("figure", partial(_draw, rows, limit, bool(by)), about, by, height=height)


def _mean(lines: Sequence[ForestLine]) -> float:
    return float(np.mean([line.number.value for line in lines if line.is_known]))


def _draw(rows: Drawn, limit: float, is_by_key: bool, axes: Axes) -> None:
    names = list(dict.fromkeys(line.name for line in chain.from_iterable(rows.values())))
    colours = {name: RUNS[place % len(RUNS)] if is_by_key else "black" for place, name in enumerate(names)}
    for place, lines in enumerate(rows.values()):
        shown = sorted((line for line in lines if line.is_known), key=lambda line: names.index(line.name))
        for at, line in enumerate(shown):
            height = place + 0.7 * ((at + 0.5) / len(shown) - 0.5)
            _draw_line(axes, line, height, colours[line.name])
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, limit)
    if next(chain.from_iterable(rows.values())).number.form.endswith("%"):
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    handles, labels = axes.get_legend_handles_labels()
    legend = dict(zip(labels, handles, strict=True))
    listed = [
        *(names if is_by_key else ()),
        *(name for name in MARKS if name in legend),
    ]  # else the rows have the names
    if listed:
        found = [legend[name] for name in listed]
        axes.figure.legend(found, listed, loc="outside lower center", ncols=3, fontsize="small", frameon=False)


def _draw_line(axes: Axes, line: ForestLine, height: float, colour: str) -> None:
    number = line.number
    if number.low is not None and number.high is not None:
        axes.plot([number.low, number.high], [height, height], color=colour, linewidth=1.5, clip_on=False)
    axes.plot(number.value, height, "o", color=colour, markersize=5, label=line.name, clip_on=False)
    for name, value in line.baselines.items():
        axes.plot(value, height, MARKS[name], color="gray", markersize=5, fillstyle="none", label=name, clip_on=False)
