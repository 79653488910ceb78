"""What ``manifest.json`` of a run and ``link.json`` of a link predictor must hold, checked when they are opened.

Keys that are not named here are allowed, so that what a later version adds can be read by this one; what readers take
for granted must be there and of its kind. Runs of version 0.1.0 lack ``shows`` and parts of the identity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.errors import BadInput
from fathom.reading import Missing, Unreadable, json_file, located, shown

RUN, LINK = "manifest.json", "link.json"
PARTS = "parts"
"""Folder in which the processes that share a run keep their circumstances."""
FORMAT = 1
"""Of both; a greater number is a later version's."""
_SHOWN = 5
"""How many faults of one file are listed."""
Options = dict[str, Any]
Part = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]
"""A part of a file's name."""


class Object(BaseModel):
    """An object whose further keys are let be, and whose values are not converted."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class ModelAsked(Object):
    """Which model."""

    name: str
    revision: str | None = None
    dtype: str | None = None
    content_hash: str | None = None


class DataAsked(Object):
    """Which data."""

    name: str
    version: str | None = None
    content_hash: str | None = None


class RunIdentity(Object):
    """Everything that can change a number."""

    probe: str
    options: Options = {}
    resolved: Options = {}
    model: ModelAsked
    data: DataAsked
    seed: int | None = None
    version: str | None = None


class Shows(Object):
    """What the probe declares of its numbers (:mod:`fathom.results.declarations`)."""

    scorings: dict[str, dict[str, str]] = {}
    headline: str = "metrics"
    cuts: list[int] = []
    further: list[str] = []
    by: list[str] = []
    usual: Options = {}
    told: dict[str, str] = {}


class Circumstances(Object):
    """Where and how fast; none of it decides anything."""

    notes: list[str] | None = None


class RunManifest(Object):
    """``manifest.json``."""

    format: int = 0
    identity: RunIdentity
    plan: Annotated[list[Part], Field(min_length=1)]
    circumstances: Circumstances = Circumstances()
    shows: Shows = Shows()


class PartNotes(Object):
    """A file of ``parts/``: what one of the processes did that share a run."""

    part: Annotated[str, Field(pattern=r"^[1-9][0-9]*/[1-9][0-9]*$")]
    shards: int
    circumstances: Circumstances


class WeightsBegunWith(Object):
    """The language model whose weights a training began with."""

    name: str
    content_hash: str | None = None


class GraphTrainedOn(Object):
    """The graph of a link predictor."""

    name: str
    content_hash: str | None = None
    places: str


class LinkIdentity(Object):
    """Everything that can change what is learnt."""

    kind: str
    options: Options
    weights: WeightsBegunWith | None = None
    data: GraphTrainedOn
    version: str | None = None


class Ended(Object):
    """How a training ended."""

    why: str
    failed: bool = False
    epoch: int | None = None


class LinkManifest(Object):
    """``link.json``."""

    format: int = 0
    identity: LinkIdentity
    ended: Ended | None
    notes: list[str] = []


def read_manifest(folder: Path, kind: type[RunManifest] | type[LinkManifest]) -> dict[str, Any]:
    """The content of a folder's manifest, as written.

    :raises Missing: there is none.
    :raises BadInput: it cannot be read, was written by a later version, or a value in it is missing or of a wrong kind.
    """
    file = folder / (RUN if kind is RunManifest else LINK)
    made_by = "fathom probe" if kind is RunManifest else "fathom kgc train"
    try:
        content = json_file(file)
    except Missing:
        raise
    except Unreadable as error:
        raise BadInput(f"{error}; give a folder that {made_by} has made") from error
    if isinstance(content, dict) and isinstance(content.get("format"), int) and content["format"] > FORMAT:
        raise BadInput(f"{folder} was written by a newer version of Fathom: update with pip install -U fathom-lm")
    try:
        kind.model_validate(content)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        lines = [located(file, None, _in_words(fault)) for fault in faults[:_SHOWN]]
        lines += [located(file, None, f"{len(faults) - _SHOWN} more faults")] if len(faults) > _SHOWN else []
        lines[-1] += f"; give a folder that {made_by} has made, or make it anew"
        raise BadInput(lines) from error
    return content  # type: ignore[no-any-return]


def read_parts(folder: Path) -> list[dict[str, Any]]:
    """What each process that shared a run has noted, in the order in which they began.

    :raises BadInput: a file cannot be read, or a value in it is missing or of a wrong kind.
    """
    found = []
    for file in sorted((folder / PARTS).glob("*.json")):
        try:
            PartNotes.model_validate(content := json_file(file))
        except ValidationError as error:
            fault = located(file, None, _in_words(error.errors()[0]))
            raise BadInput(f"{fault}; delete it, it holds circumstances alone") from error
        found.append(content)
    return sorted(found, key=lambda part: str(part["circumstances"].get("begun", "")))


def _in_words(fault: Any) -> str:
    where = ".".join(map(str, fault["loc"])) or "the content"
    if fault["type"] == "missing":
        return f"{where} is missing"
    expected = "be an object {…}" if fault["type"] in ("model_type", "dict_type") else _expected(fault["msg"])
    return f"{where} must {expected}, found {shown(fault['input'])}"


def _expected(said: str) -> str:
    """pydantic's words, such as "Input should be a valid string"."""
    words = said.removeprefix("Input should ").removeprefix("String should ")
    return words.replace("a valid string", "a text").replace("a valid integer", "a whole number").replace("valid ", "")
