"""Tables and pictures of template-based beside template-free probing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fathom.results.outcomes import CUTS, READINGS
from fathom.results.tables import Cell, Table
from fathom.studies.entities_tables import picture
from fathom.studies.paired import Paired
from fathom.studies.perplexity import Perplexities
from fathom.studies.rankings import Agreement, Column, Estimate, Rankings
from fathom.studies.relations import SharedRelations
from fathom.studies.repeated import SHOWN, Repeated
from fathom.studies.templates import OfTemplate

ACCURACIES = tuple(f"Acc@{k}" for k in CUTS)
_Body = tuple[tuple[Cell, ...], ...]
_SHORT = {"template-based": "TB", "template-free": "TF"}


def rankings_tables(found: Rankings) -> list[Table]:
    """Places side by side; each column with its numbers; and how well the two readings agree."""
    columns = [(f"{column.data}, {column.reading}", column) for column in found.columns]
    models = list(dict.fromkeys(score.model for column in found.columns for score in column.scores))
    places = [{score.model: score.place for score in column.scores} for column in found.columns]
    body: _Body = tuple((*_named(model, found), *(of_model.get(model) for of_model in places)) for model in models)
    head = ("model", *(("group",) if found.groups else ()), *(title for title, _ in columns))
    side_by_side = Table(
        head,
        body,
        "places, 1 is the best",
        notes=("by Acc@1, ties by Acc@5 and then Acc@10; the tied share a mean place",),
    )
    return [side_by_side, *(_column_table(title, column, found) for title, column in columns), _agreement_table(found)]


def _named(model: str, found: Rankings) -> tuple[Cell, ...]:
    return (model, found.groups[model]) if found.groups else (model,)


def _column_table(title: str, column: Column, found: Rankings) -> Table:
    bounds = [name for k in CUTS for name in (f"Acc@{k}", f"low@{k}", f"high@{k}")]
    body: list[tuple[Cell, ...]] = []
    for score in sorted(column.scores, key=lambda score: (score.place, score.model)):
        numbers = [value for hit in score.hits for value in (hit.estimate, hit.low, hit.high)]
        body.append((score.place, *_named(score.model, found), *numbers))
    average = [cell for value in column.average for cell in (value, None, None)]
    body.append((None, "average", *((None,) if found.groups else ()), *average))
    notes = [f"{column.facts:,} facts that all models ranked", _left_out(column.left_out, "not all models ranked")]
    notes += sorted({hit.note for score in column.scores for hit in score.hits})
    head = ("place", "model", *(("group",) if found.groups else ()), *bounds)
    return Table(
        head, tuple(body), title, formats=dict.fromkeys(bounds, ".1%"), notes=tuple(note for note in notes if note)
    )


def _left_out(count: int, why: str) -> str:
    return f"{count:,} facts that {why} are left out" if count else ""


def _agreement_table(found: Rankings) -> Table:
    names = ("Kendall's tau-b", "tau low", "tau high", "Spearman's rho", "rho low", "rho high")
    body: _Body = tuple(_agreement_row(line) for line in found.agreements)
    notes = ("low, high: 95 % of 1,000 resamples of the facts, the models as they are",)
    if not found.agreements:
        notes = ("no model ranking has both readings: add runs with --reading template-based and template-free",)
    title = "template-based and template-free rankings"
    return Table(("over", "group", "models", *names), body, title, formats=dict.fromkeys(names, ".3f"), notes=notes)


def _agreement_row(line: Agreement) -> tuple[Cell, ...]:
    estimates: list[Estimate] = [line.tau, line.rho]
    return (line.over, line.group, line.models, *(value for estimate in estimates for value in estimate))


def paired_tables(found: Sequence[Paired], first: str, second: str, title: str) -> list[Table]:
    """:param first: how the facts were asked one way, and :param second: the other; both in a word."""
    body: list[tuple[Cell, ...]] = []
    for line in found:
        about: tuple[Cell, ...] = (line.model, line.data, line.reading, line.facts, line.sizes[1], line.sizes[0])
        for name, mine, theirs, difference in zip(ACCURACIES, line.first, line.second, line.differences, strict=True):
            body.append((*about, name, theirs, mine, *difference.difference[:3], difference.p_value))
    notes = [f"difference: {first} minus {second}, paired by fact"]
    for line in found:
        for count, one, other in ((line.only_first, first, second), (line.only_second, second, first)):
            said = f"{line.model}, {line.data}: {count:,} facts that only the {one} run could rank, not the {other}"
            notes += [f"{said}, are left out"] if count else []
    notes += sorted({difference.difference.note for line in found for difference in line.differences} - {""})
    sizes = (f"candidates, {second}", f"candidates, {first}")
    columns = ("model", "data", "reading", "facts", *sizes, "of", second, first, "difference", "low", "high", "p")
    formats = dict.fromkeys((first, second), ".1%") | dict.fromkeys(("difference", "low", "high"), "+.1%")
    formats |= dict.fromkeys(sizes, ".0f") | {"p": ".2g"}
    # Between readings neither the reading nor the number of candidates, which is the same, says anything.
    hidden = frozenset({"reading", *sizes} if first in READINGS else ())
    return [Table(columns, tuple(body), title, formats=formats, hidden=hidden, notes=tuple(notes))]


def readings_tables(found: Sequence[Paired]) -> list[Table]:
    """As :func:`fathom.studies.paired.readings` gives them."""
    based, free = READINGS
    return paired_tables(found, free, based, "the same facts, template-based and template-free")


def pools_tables(found: Sequence[Paired]) -> list[Table]:
    """As :func:`fathom.studies.paired.pools` gives them."""
    return paired_tables(found, "modified", "original", "the same facts among more candidates")


def repeated_tables(found: Sequence[Repeated]) -> list[Table]:
    """Distinct predictions of every run, then the most repeated entities of each."""
    shares = tuple(f"distinct/predictions @{k}" for k in CUTS)
    body: _Body = tuple(
        (line.model, line.data, line.reading, line.prompts, line.unscored, *line.distinct, *line.shares)
        for line in found
    )
    head = ("model", "data", "reading", "prompts", "unscored", *(f"distinct@{k}" for k in CUTS), *shares)
    notes = ("distinct@k: entities that any prompt has among its k best; predictions: prompts × k",)
    summary = Table(head, body, "distinct predictions", formats=dict.fromkeys(shares, ".1%"), notes=notes)
    return [summary, *(entities_table(line, SHOWN) for line in found)]


def entities_table(found: Repeated, shown: int | None = None) -> Table:
    """:param shown: how many; None for all."""
    columns = tuple(f"top {k}" for k in CUTS)
    body: _Body = tuple((entity.name, entity.id, *entity.shares) for entity in found.entities[:shown])
    title = f"most repeated: {found.model}, {found.data}, {found.reading}"
    notes = ("share of the prompts in whose top k an entity stands",)
    return Table(("entity", "id", *columns), body, title, formats=dict.fromkeys(columns, ".1%"), notes=notes)


def perplexity_tables(found: Perplexities) -> list[Table]:
    """Points, means over models, and the correlations of both."""
    columns = ("model", "data", "reading", "Acc@1", "perplexity", "corpus perplexity", "prompts", "without")
    formats = {"Acc@1": ".1%", "perplexity": ".2f", "corpus perplexity": ".2f"}
    related: _Body = tuple(
        (
            line.over,
            line.data,
            line.reading,
            *line.correlation[:1],
            *line.correlation[2:4],
            line.correlation[1],
            line.correlation[4],
        )
        for line in found.related
    )
    numbers = dict.fromkeys(("Pearson r", "low", "high"), ".3f") | {"p": ".2g"}
    return [
        Table(columns, tuple(found.points), "accuracy and perplexity", formats=formats),
        Table(columns, tuple(found.means), "means over models", formats=formats),
        Table(
            ("points are", "data", "reading", "Pearson r", "low", "high", "p", "n"),
            related,
            "correlation of Acc@1 and mean perplexity",
            formats=numbers,
            notes=("fewer than three points, or points that do not vary, have no r",),
        ),
    ]


def templates_tables(found: Sequence[OfTemplate]) -> list[Table]:
    columns = ("data", "relation", "template", "wording", "models", "prompts", *ACCURACIES, "deviation")
    body: _Body = tuple((*line[:6], *line.hits, line.deviation) for line in found)
    notes = (
        "Acc@k: mean over models of each model's mean; deviation: of Acc@1, sample standard deviation over models",
    )
    return [
        Table(
            columns, body, "accuracy by template", formats=dict.fromkeys((*ACCURACIES, "deviation"), ".1%"), notes=notes
        )
    ]


def relations_tables(found: SharedRelations) -> list[Table]:
    """Models on the shared relations of both data sets, then every relation."""
    one, other = found.names
    sides = [(name, f"{name} low", f"{name} high") for name in found.names]
    paired = ("difference", "low", "high", "p", "Pearson r", "p of r")
    body: _Body = tuple(
        (
            line.model,
            len(line.relations),
            *(value for score in line.scores for value in score[:3]),
            *line.difference.difference[:3],
            line.difference.p_value,
            line.correlation.r,
            line.correlation.p_value,
        )
        for line in found.models
    )
    shares = [column for side in sides for column in side]
    formats = dict.fromkeys(shares, ".1%") | dict.fromkeys(paired[:3], "+.1%") | {"Pearson r": ".3f"}
    notes = [
        f"Acc@1, mean over the relations that both have; difference: {one} minus {other}, paired by relation",
        "; ".join(
            f"{count} relations of {name} alone are left out"
            for name, count in zip(found.names, found.models[0].only, strict=True)
        ),
    ]
    if found.spread is not None:
        spreads = zip(found.names, found.spread, strict=True)
        notes.append("best minus worst model: " + ", ".join(f"{name} {spread:.1%}" for name, spread in spreads))
    notes += sorted({line.difference.difference.note for line in found.models} - {""})
    models = Table(
        ("model", "relations", *shares, *paired), body, f"{one} and {other}", formats=formats, notes=tuple(notes)
    )
    lines: _Body = tuple(
        (line.model, part.relation, *part.facts, *(value for score in part.scores for value in score[:3]))
        for line in found.models
        for part in line.relations
    )
    head = ("model", "relation", f"facts {one}", f"facts {other}", *shares)
    return [models, Table(head, lines, "by relation", formats=dict.fromkeys(shares, ".1%"))]


def draw_rankings(found: Rankings, path: Path) -> Path | None:
    """A line for each model through its places on the columns (a bump chart)."""

    def draw(axes: Any) -> None:
        places = [{score.model: score.place for score in column.scores} for column in found.columns]
        models = list(dict.fromkeys(model for of_model in places for model in of_model))
        for model in models:
            there = [(number, of_model[model]) for number, of_model in enumerate(places) if model in of_model]
            axes.plot(*zip(*there, strict=True), marker="o", label=model)
            axes.annotate(model, there[-1], xytext=(8, 0), textcoords="offset points", va="center", fontsize=7)
        labels = [f"{column.data}\n{_SHORT.get(column.reading, column.reading)}" for column in found.columns]
        axes.set_xticks(range(len(labels)), labels, fontsize=7)
        axes.set_yticks(range(1, len(models) + 1))
        axes.invert_yaxis()
        axes.margins(x=0.2)

    return picture(path, draw, "data set and reading (TB: template-based, TF: template-free)", "place")


def draw_repeated(found: Repeated, path: Path) -> Path | None:
    """Bars of the most repeated entities (figure 1)."""

    def draw(axes: Any) -> None:
        entities = found.entities[:SHOWN]
        axes.bar(range(len(entities)), [100 * entity.shares[-1] for entity in entities])
        axes.set_xticks(range(len(entities)), [entity.name for entity in entities], rotation=60, ha="right", fontsize=7)
        distinct = ", ".join(f"{share:.1%} of top {k}" for share, k in zip(found.shares, CUTS, strict=True))
        axes.set_title(f"{found.model}, {found.data}, {found.reading}\ndistinct: {distinct}", fontsize=8)

    return picture(path, draw, "entity", f"% of the prompts that have it in their top {max(CUTS)}")


def draw_perplexity(found: Perplexities, path: Path) -> Path | None:
    """Every run as a point, and data sets' means as large ones (figure 2)."""

    def draw(axes: Any) -> None:
        for number, reading in enumerate(dict.fromkeys(point.reading for point in found.points)):
            for points, size, label in ((found.points, 14, reading), (found.means, 80, f"{reading}, data-set means")):
                own = [point for point in points if point.reading == reading]
                xs, ys = [point.perplexity for point in own], [point.accuracy for point in own]
                axes.scatter(xs, ys, s=size, color=f"C{number}", alpha=0.6, label=label)
        axes.set_xscale("log")
        axes.legend(fontsize=7)

    return picture(path, draw, "perplexity, mean over prompts", "Acc@1")


def draw_relations(found: SharedRelations, path: Path) -> Path | None:
    """Every shared relation by its two scores, a colour for each model; on the line both are equal (figure 8)."""

    def draw(axes: Any) -> None:
        for line in found.models:
            xs, ys = ([part.scores[side].estimate for part in line.relations] for side in (0, 1))
            axes.scatter(xs, ys, s=12, alpha=0.6, label=line.model)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
        axes.legend(fontsize=7)

    return picture(path, draw, f"Acc@1 on {found.names[0]}", f"Acc@1 on {found.names[1]}")
