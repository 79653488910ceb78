"""Tables of published data sets: those that can be fetched by name, and all that Fathom reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fathom.data.graph.cache import cache_root
from fathom.errors import BadInput, alike, refuse
from fathom.reading import shown, yaml_file
from fathom.reading.replies import host_of

TABLE = Path(__file__).with_name("published.yaml")
READABLE = Path(__file__).with_name("readable.yaml")
_SHA256 = r"^[0-9a-f]{64}$"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_PLACE = r"^([A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*$"


class PublishedFile(BaseModel):
    """A file or archive to fetch; ``published.yaml`` explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str
    sha256: str | None = Field(None, pattern=_SHA256)
    name: str | None = Field(None, pattern=_PLACE)
    take: tuple[str, ...] | None = None
    strip: int | None = Field(None, ge=0)
    contents: str | None = Field(None, pattern=_SHA256)
    checked: str = "*"

    @property
    def is_known(self) -> bool:
        """Return whether its checksum is known before fetching."""
        return bool(self.sha256 or self.contents)

    @property
    def place(self) -> str:
        """Path of a file in the folder."""
        last = self.name or PurePosixPath(urlsplit(self.url).path).name
        return last if re.match(_PLACE, last) else "data"


class PublishedDataset(BaseModel):
    """A data set that can be fetched; ``published.yaml`` explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=_NAME)
    about: str = ""
    home: str = ""
    licence: str = "not stated"
    reads: tuple[str, ...] = ()
    base: str = ""
    sources: tuple[PublishedFile, ...] = Field(min_length=1)

    @cached_property
    def whole_sources(self) -> tuple[PublishedFile, ...]:
        """The sources with complete addresses."""
        return tuple(
            source if "://" in source.url else source.model_copy(update={"url": self.base + source.url})
            for source in self.sources
        )

    @property
    def checksums(self) -> str:
        """The number of sources with a known checksum, in words."""
        known = sum(source.is_known for source in self.sources)
        return {0: "on first use", len(self.sources): "known"}.get(known, f"known for {known} of {len(self.sources)}")


def read_table(file: Path = TABLE) -> dict[str, PublishedDataset]:
    """Read the entries by name. :raises BadInput: one line for each fault."""
    content = yaml_file(file)
    if not isinstance(content, dict) or not content:
        raise BadInput(f"{file}: expected 'NAME:' with sources below it, found {shown(content)}; see {TABLE}")
    entries, faults = {}, []
    for name, fields in content.items():
        try:
            entry = (
                PublishedDataset(name=name, **fields)
                if isinstance(fields, Mapping)
                else PublishedDataset(name=name, sources=())
            )
            for source in entry.whole_sources:
                host_of(source.url, f"{name}: url", "https://example.org/data.zip")
            entries[entry.name] = entry
        except ValidationError as error:
            faults += [f"{file}: {name}: {_place_of(fault['loc'])}{fault['msg']}" for fault in error.errors()]
        except (BadInput, TypeError) as error:
            faults.append(f"{file}: {error}")
    refuse(faults)
    return entries


def entry_of(name: str, entries: Mapping[str, PublishedDataset]) -> PublishedDataset:
    """Return an entry by name, ignoring case. :raises BadInput: there is none."""
    entry = next((entry for key, entry in entries.items() if key.casefold() == name.casefold()), None)
    if entry is None:
        meant = "".join(f"; did you mean {key}?" for key in alike(name, entries, 1))
        raise BadInput(
            f"no data set '{shown(name)[1:-1]}' to fetch{meant}: there is {', '.join(entries)}; or give its address as "
            "--url"
        )
    return entry


def shelf() -> Path | None:
    """Return the folder of fetched data sets, or None if there is no place for a cache."""
    root = cache_root()
    return None if root is None else root / "data"


def fetched(data: str) -> Path | None:
    """Return the folder of a fetched data set, or a folder in it ("LAMA/TREx"), or None."""
    place, parts = shelf(), PurePosixPath(data).parts
    if place is None or not place.is_dir() or not parts or ".." in parts:
        return None
    named = (folder for folder in place.iterdir() if folder.name.casefold() == parts[0].casefold())
    return next((path for folder in named if (path := folder.joinpath(*parts[1:])).is_dir()), None)


def _place_of(where: tuple[int | str, ...]) -> str:
    return "".join(f"{part + 1}. " if isinstance(part, int) else f"{part} " for part in where).rstrip() + ": "


class _Line(BaseModel):
    """A row of ``readable.yaml``, which explains the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    format: str
    size: str
    fetch: str | None = None
    home: str = ""
    licence: str = ""
    ready: str = ""


class ReadableDataset(NamedTuple):
    """A published data set.

    :param format: name of its reader.
    :param home: where it is published.
    :param ready: the command that fetches it or checks what was downloaded.
    """

    name: str
    paper: str
    format: str
    size: str
    home: str
    licence: str
    ready: str


def readable() -> list[ReadableDataset]:
    """Return all rows of ``readable.yaml``, completed from ``published.yaml``."""
    entries, rows = read_table(), []
    for name, fields in yaml_file(READABLE).items():
        line = _Line(**fields)
        if line.fetch is None:
            origin = line.home, line.licence, line.ready
        else:
            entry = entries[line.fetch]
            origin = entry.home.removeprefix("https://"), entry.licence, f"fathom data fetch {entry.name}"
        rows.append(ReadableDataset(name, line.paper, line.format, line.size, *origin))
    return rows
