"""The design of a planted model: how often it has read each fact, from the file ``planted.jsonl`` in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput
from fathom.base.reading import Faults, read_json_lines, repetition, stands
from fathom.store.folder import RunFolder

FILE = "planted.jsonl"


class PlantedFact(NamedTuple):
    """:param exposures: number of statements of the fact that the model has read.
    :param taught: formats of questions that it was taught with this fact, which is then no test of them.
    :param directions: in which order it was stated: "forward" (the answer last), "reverse", both or none.
    """

    exposures: int
    taught: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()


Design = Mapping[str, PlantedFact]
"""By ``fact_id``, or ``query_id`` of a sentence without a known subject."""


def read_design(file: Path) -> Design:
    """Read which facts a model has read.

    :param file: a planted model's ``planted.jsonl``, or one in its format, see ``docs/howto/plant.md``.
    :raises BadInput: it is missing, or a line is wrong.
    """
    faults = Faults()
    design: dict[str, PlantedFact] = {}
    lines: dict[str, int] = {}
    for line, row in read_json_lines(file, {"query_id": str, "exposures": int}, faults):
        fact = PlantedFact(
            row["exposures"], tuple(map(str, row.get("taught") or ())), tuple(map(str, row.get("directions") or ()))
        )
        key = str(row.get("fact_id") or row["query_id"])
        if why := repetition(lines, row["query_id"], line, f"query_id {row['query_id']!r}"):
            faults.add(file, line, why)
        elif fact.exposures < 0:
            faults.add(file, line, f"{key} has {fact.exposures} exposures: expected 0 or more")
        elif design.setdefault(key, fact).exposures != fact.exposures:
            faults.add(
                file, line, f"{key} has {design[key].exposures} exposures in an earlier line, here {fact.exposures}"
            )
    faults.stop_if_any()
    return design


def design_file(run: RunFolder) -> Path | None:
    """Return the design in the folder of the model that a run evaluated; None if there is none."""
    command = run.manifest["circumstances"].get("command") or {}
    folder = Path(str(command.get("model") or run.manifest["identity"]["model"]["name"]))
    # A relative name would be looked for in the folder where the study runs.
    return folder / FILE if folder.is_absolute() and stands(folder / FILE) else None


def design_of(run: RunFolder, file: Path | None = None) -> Design:
    """Return the design of the model that a run evaluated. :param file: by default the one in the model's folder.

    :raises BadInput: the model has no design.
    """
    file = file or design_file(run)
    if file is None:
        raise BadInput(
            f"{run.path}: the model {run.manifest['identity']['model']['name']} has no {FILE} in its folder, so which "
            "facts it has read is unknown: give --design FILE, or make a model with fathom plant"
        )
    return read_design(file)
