"""Groups of models, as the file of ``--groups`` has them."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fathom.errors import BadInput, refuse
from fathom.reading import NotData, Unreadable, json_value, located, read_text


def read_groups(file: Path, models: Mapping[str, str]) -> dict[str, str]:
    """The group of each model.

    :param file: JSON, ``{"model": "group"}``; or CSV with the header ``model,group``.
    :param models: short name → full name; the file may use either.
    :raises BadInput: the file cannot be read so, or lacks a model.
    """
    try:
        text = read_text(file)
    except Unreadable as error:
        raise BadInput(f"--groups {error}") from error
    listed = _listed_as_json(file, text) if text.lstrip().startswith(("{", "[")) else _listed_as_csv(file, text)
    refuse(
        f"--groups {file}: model {short} has no group; the file names {', '.join(listed) or 'none'}"
        for short, full in models.items()
        if short not in listed and full not in listed
    )
    return {short: listed[short] if short in listed else listed[full] for short, full in models.items()}


def _listed_as_json(file: Path, text: str) -> dict[str, str]:
    try:
        found: Any = json_value(text)
    except NotData as error:
        raise BadInput(f"--groups {located(file, error.line, error.why)}") from error
    if not isinstance(found, dict) or not all(isinstance(group, str) for group in found.values()):
        raise BadInput(f'--groups {file}: expected {{"model": "group", …}}')
    return found


def _listed_as_csv(file: Path, text: str) -> dict[str, str]:
    try:
        header, *lines = list(csv.reader(text.splitlines())) or [[]]
    except csv.Error as error:
        raise BadInput(f"--groups {file}: not CSV: {error}") from error
    if [name.strip() for name in header] != ["model", "group"]:
        raise BadInput(f"--groups {file}:1: expected the header model,group, found {','.join(header)!r}")
    refuse(
        f"--groups {file}:{number}: expected a model and its group, found {','.join(line)!r}"
        for number, line in enumerate(lines, start=2)
        if line and (len(line) != 2 or not all(cell.strip() for cell in line))
    )
    return {line[0].strip(): line[1].strip() for line in lines if line}
