"""Tables and heat maps of what models infer from premises about pseudowords."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from fathom.metrics.bootstrap import Interval
from fathom.results.tables import Cell, Table
from fathom.studies.entailment import ALL, ALL_WORDINGS, LEVELS, Effect, Entailment, Line, Remembered
from fathom.studies.entities_tables import picture
from fathom.studies.ontology import CUTS

RECALLS = tuple(f"R@{k}" for k in CUTS)
_FORMATS = (
    dict.fromkeys(RECALLS, ".1%")
    | dict.fromkeys(("MRR", "low", "high", "MRRₐ", "better half", "worse half"), ".3f")
    | dict.fromkeys(("difference", "difference low", "difference high"), "+.3f")
)
_GIVEN = (
    "P1, P2: explicit: said; implicit: not said, but among the half that is remembered better; absent: the other half"
)
_LEGEND = (
    "MRR: of the best right answer, over items and pairs of pseudowords, low and high 95 % of resamples of the items; "
    "MRRₐ: 1 / mean unfiltered rank of all right answers"
)


def entailment_tables(found: Entailment) -> list[Table]:
    """Means over rules (figure 3), wordings (figure 4), each rule in all settings (figures 2 and 8), what saying
    premises adds, and how premises are remembered."""
    rules = dict.fromkeys(line.setting.rule for line in found.lines)
    return [
        _means(found),
        *([_wordings(found)] if len(found.by_wording) > 1 else []),
        *(_rule([line for line in found.lines if line.setting.rule == rule], rule) for rule in rules),
        _effects(found.effects),
        _remembered(found.remembered, found.notes),
    ]


def _means(found: Entailment) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple(
        (
            mean.model or "all models",
            mean.wording or ALL_WORDINGS,
            mean.first,
            mean.second,
            *_interval(mean.mrr),
            mean.mrr_all,
            len(mean.rules),
        )
        for mean in found.means
    )
    columns = ("model", "wording", "P1", "P2", "MRR", "low", "high", "note", "MRRₐ", "rules")
    notes = [_GIVEN, "every rule has the same weight; low and high: 95 % of resamples of the items", *_lacking(found)]
    return Table(columns, body, f"{ALL} (figure 3)", _FORMATS, hidden=frozenset({"note"}), notes=tuple(notes))


def _lacking(found: Entailment) -> list[str]:
    """Which rules are not in all means."""
    empty = Counter(line.setting[:3] for line in found.lines if not line.values)
    said = [
        f"{rule} of {model}, {wording} ({count} of {len(LEVELS) ** 2} settings)"
        for (model, wording, rule), count in empty.items()
    ]
    return [f"not in every mean, as nothing was scored in the setting: {'; '.join(said)}"] if said else []


def _wordings(found: Entailment) -> Table:
    body = tuple((wording, *means) for wording, means in found.by_wording.items())
    note = "means over models, rules and settings; learnt: both templates and conjunction"
    return Table(("wording", "MRR", "MRRₐ"), body, "wordings (figure 4)", _FORMATS, notes=(note,))


def _rule(lines: list[Line], rule: str) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple(
        (line.setting.model, line.setting.wording, line.setting.first, line.setting.second, *_measured(line))
        for line in lines
    )
    columns = ("model", "wording", "P1", "P2", *RECALLS, "MRR", "low", "high", "note", "MRRₐ", "items", "unscored")
    return Table(columns, body, f"{rule}, every setting", _FORMATS, hidden=frozenset({"note"}), notes=(_GIVEN, _LEGEND))


def _measured(line: Line) -> tuple[Cell, ...]:
    numbers = line.numbers
    if numbers is None:
        return (*(None,) * (len(RECALLS) + 5), 0, line.unscored)
    return (*numbers.recalls, *_interval(numbers.mrr), numbers.mrr_all, numbers.items, line.unscored)


def _interval(found: Interval) -> tuple[Cell, ...]:
    return found.estimate, found.low, found.high, found.note


def _effects(effects: list[Effect]) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple(
        (
            effect.model,
            effect.wording,
            effect.rule,
            effect.said,
            *effect.difference.difference[:3],
            effect.difference.p_value,
            effect.difference.difference.clusters,
            effect.difference.difference.note,
        )
        for effect in effects
    )
    columns = (
        "model",
        "wording",
        "rule",
        "said",
        "difference",
        "difference low",
        "difference high",
        "p",
        "items",
        "note",
    )
    note = "1 / rank with the premises said, minus with none said, of the same items and pairs; 95 % over items"
    return Table(columns, body, "what saying premises adds", _FORMATS | {"p": ".4f"}, notes=(note,))


def _remembered(found: list[Remembered], notes: list[str]) -> Table:
    body: tuple[tuple[Cell, ...], ...] = tuple(
        (one.model, one.wording, one.rule, one.premise, one.items, one.better, one.worse, "; ".join(one.middle) or None)
        for one in found
    )
    columns = ("model", "templates", "rule", "premise", "items", "better half", "worse half", "left out")
    note = "mean 1 / rank in the memorising runs; left out: in the middle of an odd count"
    return Table(columns, body, "how premises are remembered", _FORMATS, notes=(note, *notes))


def draw_heat_maps(found: Entailment, folder: Path) -> list[Path] | None:
    """A 3×3 map of the MRR for each model, wording and rule, and one over all rules (figures 2, 3 and 8).

    :returns: the files, None where matplotlib is not installed.
    """
    maps: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    for mean in found.means:
        cells = maps.setdefault((mean.model or "all-models", mean.wording or _dashed(ALL_WORDINGS), _dashed(ALL)), {})
        cells[mean.first, mean.second] = mean.mrr.estimate
    for line in found.lines:
        model, wording, rule, first, second = line.setting
        if line.numbers is not None:
            maps.setdefault((model, wording, rule), {})[first, second] = line.numbers.mrr.estimate
    files = []
    for (model, wording, rule), cells in maps.items():
        file = picture(
            folder / f"entailment-{model}-{wording}-{rule}.png",
            lambda axes: _heat_map(axes, cells, f"{rule}, {model}, {wording}"),  # noqa: B023 - called at once
            "P2",
            "P1",
        )
        if file is None:
            return None
        files.append(file)
    return files


def _dashed(name: str) -> str:
    return name.replace(" ", "-")


def _heat_map(axes: Any, cells: dict[tuple[str, str], float], title: str) -> None:
    """Colours from 0 to 1 in all maps, so that they can be laid side by side."""
    values = [[cells.get((first, second), float("nan")) for second in LEVELS] for first in LEVELS]
    axes.imshow(values, vmin=0, vmax=1, cmap="Blues")
    for row, own in enumerate(values):
        for column, value in enumerate(own):
            said = "–" if math.isnan(value) else f"{value:.3f}"
            axes.text(column, row, said, ha="center", va="center", color="white" if value > 0.6 else "black")
    axes.set_xticks(range(len(LEVELS)), LEVELS)
    axes.set_yticks(range(len(LEVELS)), LEVELS)
    axes.set_title(f"MRR: {title}")
