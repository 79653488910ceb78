"""The catalogue of published data sets: those that Fathom reads, some of which can be fetched by name."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from fathom.base.errors import BadInput, alike
from fathom.base.reading import shown, yaml_file
from fathom.base.reading.objects import Declared

TABLE = Path(__file__).with_name("published.yaml")
_SHA256 = r"^[0-9a-f]{64}$"
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_PLACE = r"^([A-Za-z0-9_][A-Za-z0-9._-]*/)*[A-Za-z0-9_][A-Za-z0-9._-]*$"


class PublishedFile(Declared):
    """A file or archive to fetch; ``published.yaml`` explains the fields."""

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


class PublishedDataset(Declared):
    """A data set; ``published.yaml`` explains the fields."""

    name: str
    paper: str = ""
    format: str = ""
    size: str = ""
    about: str = ""
    home: str = ""
    licence: str = "not stated"
    ready: str = ""
    reads: tuple[str, ...] = ()
    base: str = ""
    sources: tuple[PublishedFile, ...] = ()
    table: dict[str, Any] | None = None
    unchecked: str = ""

    @model_validator(mode="after")
    def _can_be_obtained(self) -> Self:
        if not self.sources and not self.ready:
            raise ValueError("sources: expected at least 1, with its url")
        if self.sources and not re.match(_NAME, self.name):
            raise ValueError(f"name: {shown(self.name)} is no name of a folder")
        return self

    @cached_property
    def whole_sources(self) -> tuple[PublishedFile, ...]:
        """The sources with complete addresses."""
        return tuple(
            source if "://" in source.url else source.model_copy(update={"url": self.base + source.url})
            for source in self.sources
        )

    @property
    def preparation(self) -> str:
        """The command that fetches it, or checks what was downloaded."""
        return self.ready or f"fathom data fetch {self.name}"


@cache
def catalogue() -> dict[str, PublishedDataset]:
    """Return the entries by name."""
    return {name: PublishedDataset(name=name, **fields) for name, fields in yaml_file(TABLE).items()}


def fetchable(entries: Mapping[str, PublishedDataset]) -> dict[str, PublishedDataset]:
    """Return the entries that have sources."""
    return {name: entry for name, entry in entries.items() if entry.sources}


def entry_of(name: str, entries: Mapping[str, PublishedDataset]) -> PublishedDataset:
    """Return an entry with sources by name, ignoring case. :raises BadInput: there is none."""
    entry = next((entry for key, entry in entries.items() if key.casefold() == name.casefold()), None)
    if entry is None:
        names = fetchable(entries)
        meant = "".join(f"; did you mean {key}?" for key in alike(name, names, 1))
        raise BadInput(
            f"no data set '{shown(name)[1:-1]}' to fetch{meant}: there is {', '.join(names)}; or give its address as "
            "--url"
        )
    if not entry.sources:
        raise BadInput(f"{entry.name} cannot be fetched: download it from {entry.home}, then type {entry.ready}")
    return entry


def cache_root() -> Path | None:
    """Return ``$FATHOM_CACHE`` or the user's cache folder; None if there is none."""
    folder = os.environ.get("FATHOM_CACHE")
    if folder:
        return Path(folder).expanduser()
    try:
        home = Path.home()
    except RuntimeError:
        return None
    elsewhere = {
        "darwin": home / "Library" / "Caches" / "fathom",
        "win32": Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "fathom" / "cache",
    }
    return elsewhere.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "fathom")


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
