"""The registry of presets: a YAML file each, with the values that a paper prints in a CSV file of the same name."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from fathom.base.registry import Registry


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
