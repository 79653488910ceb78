"""Schemas of ``manifest.json`` of a run and ``link.json`` of a link predictor, which may have further keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from fathom.base.errors import BadInput
from fathom.base.reading import Missing, Unreadable, as_read_back, json_file
from fathom.base.reading.objects import Object, object_faults
from fathom.store.files import write_json

RUN, LINK = "manifest.json", "link.json"
PARTS = "parts"
"""Folder of the circumstances of processes that share a run."""
FORMAT = 1
"""Version of both formats."""
DIGEST = "digest"
"""Key of :func:`write_sealed`; files of earlier versions lack it."""
CHAT_FRAME, CHAT_TOKENS = "chat_frame", "chat_tokens"
"""Parts of ``resolved``: what a chat template writes, and a hash of the tokens of each wording's first prompt."""
Options = dict[str, Any]
Digests = dict[str, str]
"""SHA-256 of files by their path in the run folder, as their writer recorded them; earlier versions recorded none."""
Part = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]
"""Part of a file name."""


class NamedContent(Object):
    """A model or data, by name and content; a model has no version, data neither revision nor dtype."""

    name: str
    content_hash: str | None = None
    revision: str | None = None
    dtype: str | None = None
    version: str | None = None


class RunOptions(Object):
    """The options of a probe; these are used of every probe's."""

    adapter: str | None = None


class RunIdentity(Object):
    """Everything that can change a number."""

    probe: str
    options: RunOptions = RunOptions()
    resolved: Options = {}
    model: NamedContent
    data: NamedContent
    seed: int | None = None
    version: str | None = None


class ProbeDeclarations(Object):
    """Declarations of the probe (:mod:`fathom.results.rows`)."""

    scorings: dict[str, dict[str, str]] = {}
    headline: str = "metrics"
    way: str = ""
    cuts: list[int] = []
    further: list[str] = []
    by: list[str] = []
    usual: Options = {}
    recipe: dict[str, str] = {}
    relations: dict[str, str] = {}


class RunCommand(Object):
    """The command that makes a run (:mod:`fathom.probes.run.request`)."""

    probe: str
    model: str
    data: str
    options: Options = {}


class Circumstances(Object):
    """Place, speed and the like, which never affect a number."""

    notes: list[str] | None = None
    left_out: dict[str, dict[str, int]] = {}
    command: RunCommand | None = None


class RunWork(Object):
    """See :class:`fathom.store.folder.Work`."""

    queries: Annotated[int, Field(ge=0)]
    prompts: dict[str, dict[str, Annotated[int, Field(ge=1)]]]


class RunManifest(Object):
    """``manifest.json``."""

    format: int = 0
    identity: RunIdentity
    plan: Annotated[list[Part], Field(min_length=1)]
    circumstances: Circumstances = Circumstances()
    shows: ProbeDeclarations = ProbeDeclarations()
    work: RunWork | None = None
    digests: Digests = {}


class PartNotes(Object):
    """A file of ``parts/``, of one process that shares a run."""

    part: Annotated[str, Field(pattern=r"^[1-9][0-9]*/[1-9][0-9]*$")]
    shards: int
    circumstances: Circumstances
    digests: Digests = {}


class TrainingGraph(NamedContent):
    """The graph of a link predictor."""

    places: str


class LinkIdentity(Object):
    """Everything that can change the weights."""

    kind: str
    options: Options
    weights: NamedContent | None = None
    data: TrainingGraph
    version: str | None = None


class TrainingEnd(Object):
    """The end of a training."""

    why: str
    failed: bool = False
    epoch: int | None = None


class LinkManifest(Object):
    """``link.json``."""

    format: int = 0
    identity: LinkIdentity
    ended: TrainingEnd | None
    notes: list[str] = []


def write_sealed(file: Path, content: Mapping[str, Any]) -> None:
    """Write JSON with a digest of itself. :raises RunFailed: the disk is full."""
    write_json(file, {**content, DIGEST: _digest(content)})


def _check_seal(file: Path, content: dict[str, Any]) -> dict[str, Any]:
    """Return content without its digest. :raises BadInput: it does not match."""
    if (sealed := content.pop(DIGEST, None)) is not None and sealed != _digest(content):
        raise BadInput(
            f"{file} is damaged: it differs from its own {DIGEST}; restore it from a copy, or delete the line "
            f'"{DIGEST}" if you changed the file on purpose'
        )
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(as_read_back(content), sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path, kind: type[RunManifest] | type[LinkManifest]) -> dict[str, Any]:
    """Read and validate the manifest of a folder.

    :raises Missing: there is none.
    :raises BadInput: it cannot be read, is invalid or damaged, or was written by a later version.
    """
    file = folder / (RUN if kind is RunManifest else LINK)
    command = "fathom probe" if kind is RunManifest else "fathom kgc train"
    try:
        content = json_file(file)
    except Missing:
        raise
    except Unreadable as error:
        raise BadInput(f"{error}; give a folder that {command} has made") from error
    if isinstance(content, dict) and isinstance(content.get("format"), int) and content["format"] > FORMAT:
        raise BadInput(f"{folder} was written by a newer version of Fathom: update Fathom")
    if faults := object_faults(file, kind, content):
        raise BadInput([*faults[:-1], f"{faults[-1]}; give a folder that {command} has made, or run it again"])
    return _check_seal(file, content)


def read_parts(folder: Path) -> list[dict[str, Any]]:
    """Return the notes of each process that shared a run, in order of their start.

    :raises BadInput: a file cannot be read, is invalid or damaged.
    """
    parts = []
    for file in sorted((folder / PARTS).glob("*.json")):
        if faults := object_faults(file, PartNotes, content := json_file(file), most=1):
            raise BadInput(f"{faults[0]}; delete it, it contains only circumstances")
        parts.append(_check_seal(file, content))
    return sorted(parts, key=lambda part: str(part["circumstances"].get("begun", "")))
