"""Tables and the bump chart of the study of rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fathom.results.baselines import NO_KNOWLEDGE, STRONGEST, verdict_of
from fathom.results.claims import NO_DIFFERENCE, Decision, percent
from fathom.results.estimates import Estimate
from fathom.results.facts import ACCURACIES, BY_TEMPLATE, FREE
from fathom.results.plots import Plot
from fathom.results.rows import grouped
from fathom.results.tables import Cell, Table
from fathom.studies.rankings_agreement import COEFFICIENTS, RankingAgreement
from fathom.studies.rankings_columns import Column, LeftOut, PlacedModel

_SHORT = {BY_TEMPLATE: "TB", FREE: "TF"}


class Step(NamedTuple):
    """From a model to the next larger one of its group, on one data set in one reading.

    :param difference: of Acc@1, larger − smaller, paired by fact.
    :param decision: whether the two differ.
    :param above: which of the two is above the baselines on these facts, see :func:`which_is_above`.
    """

    data: str
    reading: str
    group: str
    smaller: str
    larger: str
    difference: Estimate
    decision: Decision | None = None
    above: str | None = None

    @property
    def verdict(self) -> str | None:
        """Whether the larger model is significantly better (rise) or worse (drop); else why not."""
        return None if self.decision is None else {1: "rise", -1: "drop"}.get(self.decision.sign, self.decision.word)


class Rankings(NamedTuple):
    """:param groups: model → its group; empty where none were given.
    :param left_out: facts that were asked and are not compared.
    :param steps: from each size to the next within each group.
    """

    columns: list[Column]
    agreements: list[RankingAgreement]
    groups: Mapping[str, str]
    left_out: list[LeftOut]
    steps: list[Step]


def conclude(findings: Rankings) -> list[str]:
    """The first model of each data set with those above the baselines, and how well the two readings agree."""
    said = []
    for column in findings.columns:
        first = min(column.scores, key=lambda score: score.place)
        above = sum(score.decision is not None and score.decision.holds for score in column.scores)
        known = f"; {above} of {len(column.scores)} models are above every baseline" if first.decision else ""
        said.append(f"{column.data}, {column.reading}: {first.model} is first ({percent(first.hits[0].value)}){known}.")
    for one in findings.agreements:
        ends = "" if one.tau.low is None else f" [{one.tau.low:.2f}, {one.tau.high:.2f}]"
        said.append(f"{one.over}, {one.group}: tau of the two readings is {one.tau.value:.2f}{ends}.")
    return said


def tables(findings: Rankings) -> list[Table]:
    """Places side by side; each column with its numbers; and how well the two readings agree."""
    columns = [(f"{column.data}, {column.reading}", column) for column in findings.columns]
    models = list(dict.fromkeys(score.model for column in findings.columns for score in column.scores))
    placed = [{score.model: score.place for score in column.scores} for column in findings.columns]
    return [
        Table(
            ("model", *(("group",) if findings.groups else ()), *(title for title, _ in columns)),
            tuple((*_named(model, findings), *(of_model.get(model) for of_model in placed)) for model in models),
            "places, 1 is the best",
            notes=("by Acc@1, ties by Acc@5 and then Acc@10; the tied share a mean place", "places have no interval"),
        ),
        *(_column_table(title, column, findings) for title, column in columns),
        _agreement_table(findings),
        *([_steps_table(findings.steps)] if findings.steps else []),
    ]


def files(findings: Rankings) -> dict[str, Table]:
    """The facts that were asked and are not compared."""
    if not findings.left_out:
        return {}
    return {"rankings-left-out": Table(LeftOut._fields, tuple(findings.left_out), "facts that are not compared")}


def _steps_table(steps: Sequence[Step]) -> Table:
    counted = Counter((step.reading, step.verdict) for step in steps)
    readings = dict.fromkeys(step.reading for step in steps)
    said = (
        f"{reading}: " + ", ".join(f"{counted[reading, name]} {name}" for name in ("rise", "drop", NO_DIFFERENCE))
        for reading in readings
    )
    rows = [
        {
            "data": step.data,
            "reading": step.reading,
            "group": step.group,
            "from": step.smaller,
            "to": step.larger,
            "difference": step.difference,
            "verdict": step.verdict,
            "above baseline": step.above,
        }
        for step in steps
    ]
    notes = ("paired by fact; verdicts by Holm over all of this study", *said, NO_KNOWLEDGE)
    return Table.of(rows, "from each size to the next within a group, Acc@1", notes)


def _named(model: str, findings: Rankings) -> tuple[Cell, ...]:
    return (model, findings.groups[model]) if findings.groups else (model,)


def _column_table(title: str, column: Column, findings: Rankings) -> Table:
    scores = sorted(column.scores, key=lambda score: (score.place, score.model))
    left_out = _said_left_out(column, findings.left_out)
    bar = [STRONGEST] if any(score.baseline for score in scores) else []
    notes = [f"{column.facts:,} facts that all models ranked", *left_out, *_asked_differently(column), *bar]
    group = ("group",) if findings.groups else ()
    rows: list[dict[str, Cell | Estimate]] = [
        {
            "place": score.place,
            **dict(zip(("model", *group), _named(score.model, findings), strict=True)),
            **dict(zip(ACCURACIES, score.hits, strict=True)),
            "baseline": _beside_baseline(score),
        }
        for score in scores
    ]
    average = {"place": None, "model": "average", **dict(zip(ACCURACIES, column.average, strict=True))}
    return Table.of([*rows, average], title, notes, inline=True).without_empty("baseline")


def _beside_baseline(score: PlacedModel) -> str | None:
    """Whether its Acc@1 is above the strongest: places among those that are not tell nothing of knowledge."""
    if score.baseline is None or score.decision is None:
        return None
    return f"{verdict_of(score.decision)} ({score.baseline.baseline} {score.baseline.value:.1%})"


def _said_left_out(column: Column, left_out: Sequence[LeftOut]) -> list[str]:
    own = [one.fact for one in left_out if (one.data, one.reading) == (column.data, column.reading)]
    named = f": {', '.join(own[:3])}{', …' if len(own) > 3 else ''} (rankings-left-out.csv)" if own else ""
    return [f"{column.left_out:,} facts that not all models ranked are left out{named}"] if column.left_out else []


def _asked_differently(column: Column) -> list[str]:
    """Which models were asked by which probe and scoring, where these differ: places then tell of both."""
    models = grouped((score.scoring, score.model) for score in column.scores)
    if len(models) < 2:
        return []
    said = "; ".join(f"{scoring}: {', '.join(own)}" for scoring, own in models.items())
    return [f"asked in different ways, which the places cannot tell from the models: {said}"]


def _agreement_table(findings: Rankings) -> Table:
    notes = ["tau: bounds from the pairs of models whose order is significant in both readings, at 95 % for all pairs"]
    if not findings.agreements:
        notes = ["no model ranking has both readings: add runs with --reading template-based and template-free"]
    rows = [
        {
            "over": one.over,
            "group": one.group,
            "models": one.models,
            **dict(zip(COEFFICIENTS, (one.tau, one.rho), strict=True)),
        }
        for one in findings.agreements
    ]
    title = "template-based and template-free rankings"
    return Table.of(rows, title, notes, main=COEFFICIENTS[0]) if rows else Table((), (), title, notes=tuple(notes))


def plots(findings: Rankings) -> list[Plot]:
    """A line for each model through its places on the columns (a bump chart)."""

    def draw(axes: Any) -> None:
        placed = [{score.model: score.place for score in column.scores} for column in findings.columns]
        models = list(dict.fromkeys(model for of_model in placed for model in of_model))
        for model in models:
            there = [(number, of_model[model]) for number, of_model in enumerate(placed) if model in of_model]
            axes.plot(*zip(*there, strict=True), marker="o", label=model)
            axes.annotate(model, there[-1], xytext=(8, 0), textcoords="offset points", va="center", fontsize=7)
        labels = [f"{column.data}\n{_SHORT.get(column.reading, column.reading)}" for column in findings.columns]
        axes.set_xticks(range(len(labels)), labels, fontsize=7)
        axes.set_yticks(range(1, len(models) + 1))
        axes.invert_yaxis()
        axes.margins(x=0.2)

    return [Plot("rankings", draw, "data set and reading (TB: template-based, TF: template-free)", "place")]
