"""What a build tells of the data set that it made."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fathom.building.cloze.counts import Frequencies, Step
from fathom.results.tables import Table


class BuiltCloze(NamedTuple):
    """A data set that was made.

    :param steps: what was left after each.
    :param notes: what was passed over, or is odd.
    """

    out: Path
    steps: list[Step]
    frequencies: list[Frequencies]
    notes: list[str]

    def tables(self) -> list[Table]:
        """What was left after each step, and how often entities occur."""
        types = list(self.steps[-1].by_type or {})
        several = types if len(types) > 1 else []
        rows = tuple(
            (step.what, step.dropped or None, step.left, *((step.by_type or {}).get(type_) for type_ in several))
            for step in self.steps
        )
        return [
            Table(("step", "left out", "left", *several), rows, "from records to sentences"),
            Table(
                ("type", "sentences", "entities", "mean", "sd", "max", "min"),
                tuple(self.frequencies),
                "sentences per entity",
                formats=dict.fromkeys(("mean", "sd"), ".2f"),
            ),
        ]
