"""Registries of plans: presets, and kinds of runs besides those of probes.

Runs are of a kind if they have its key instead of ``probe:``, such as ``predictor:``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel

from fathom.base.options import Given
from fathom.base.registry import Registry

if TYPE_CHECKING:
    from fathom.plans.content import RunsPart
    from fathom.plans.file import PlannedRuns
    from fathom.plans.steps import PlannedStep, Step


@runtime_checkable
class Kind(Protocol):
    """An entry of KINDS.

    :ivar name: the key that makes runs be of this kind.
    :ivar part: the keys of such runs, with this one; others are options.
    :ivar data: the keys that it adds to data.
    :ivar folders: names of what it makes in the folder of a plan before the first run.
    """

    name: str
    part: type[BaseModel]
    data: type[BaseModel]
    folders: frozenset[str]

    def check(self, plan: PlannedRuns) -> None:
        """Add the faults of the keys that it adds to data."""
        ...

    def runs(self, plan: PlannedRuns, name: str, part: RunsPart) -> Iterator[PlannedStep]:
        """Yield the runs of a part of the plan; add its faults. :param name: of the part."""
        ...

    def prepare(self, steps: Sequence[Step]) -> None:
        """Make what steps share, before the first one. :param steps: of any kind."""
        ...

    def fill(self, name: str, run: Given, models: Mapping[str, Given]) -> dict[str, Given]:
        """Return the runs that a preset's run becomes, by name. :param models: those of its kinds, by name."""
        ...


KINDS: Registry[Kind] = Registry("kind of runs", "fathom.runs", (), Kind)


class Preset(NamedTuple):
    """An entry of PRESETS."""

    name: str
    file: Path


PRESETS: Registry[Preset] = Registry(
    "preset",
    "fathom.presets",
    (Preset(file.stem, file) for file in sorted((Path(__file__).parent / "presets").glob("*.yaml"))),
)


def values_of_preset(name: str) -> Path | None:
    """Return the file of a preset's values, such as ``bear.csv``; None if no preset has it."""
    preset = PRESETS.get(Path(name).stem)
    file = None if preset is None else preset.file.with_name(name)
    return file if file is not None and file.is_file() else None
