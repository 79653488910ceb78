"""The pictures of the entailment study: maps of nine settings, and wordings side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fathom.prompts.entailment import ABSENT, EXPLICIT, IMPLICIT
from fathom.results.estimates import Estimate
from fathom.results.plots import Plot

LEVELS = (EXPLICIT, IMPLICIT, ABSENT)


def bars(by_wording: Mapping[str, Sequence[Estimate]], names: Sequence[str]) -> Plot:
    """The numbers of each wording, with their intervals. :param names: of the numbers."""

    def draw(axes: Any) -> None:
        for place, name in enumerate(names):
            numbers = [means[place] for means in by_wording.values()]
            at = [number + (place - 0.5) * 0.4 for number in range(len(numbers))]
            axes.bar(at, [one.value for one in numbers], 0.4, label=name)
            for middle, one in zip(at, numbers, strict=True):
                if one.low is not None and one.high is not None:
                    axes.vlines(middle, one.low, one.high, color="black")
        axes.set_xticks(range(len(by_wording)), list(by_wording))
        axes.set_ylim(0, 1)
        axes.legend()

    return Plot("entailment-wordings", draw, "wording", "mean over models, rules and settings")


def heat_map(model: str, wording: str, rule: str, cells: dict[tuple[str, str], float]) -> Plot:
    """Colours from 0 to 1 in all maps, so that they can be laid side by side."""

    def draw(axes: Any) -> None:
        values = [[cells.get((first, second), math.nan) for second in LEVELS] for first in LEVELS]
        axes.imshow(values, vmin=0, vmax=1, cmap="Blues")
        for row, own in enumerate(values):
            for column, value in enumerate(own):
                said = "–" if math.isnan(value) else f"{value:.3f}"
                axes.text(column, row, said, ha="center", va="center", color="white" if value > 0.6 else "black")
        axes.set_xticks(range(len(LEVELS)), LEVELS)
        axes.set_yticks(range(len(LEVELS)), LEVELS)

    return Plot(f"entailment-{model}-{wording}-{rule}", draw, "P2", "P1", f"MRR: {rule}, {model}, {wording}")
