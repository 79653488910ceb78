"""The table of data sets that others publish and Fathom reads: ``readable.yaml``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from fathom.data.published import read_table
from fathom.reading import yaml_file

TABLE = Path(__file__).with_name("readable.yaml")


class _Line(BaseModel):
    """The fields are told in ``readable.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    paper: str
    format: str
    size: str
    fetch: str | None = None
    home: str = ""
    licence: str = ""
    ready: str = ""


class Readable(NamedTuple):
    """A data set that others publish.

    :param format: name of its reader.
    :param home: where it is published.
    :param ready: the command that makes it ready: it fetches the data set, or checks what was downloaded.
    """

    name: str
    paper: str
    format: str
    size: str
    home: str
    licence: str
    ready: str


def readable() -> list[Readable]:
    """All of the table, those that can be fetched with what ``published.yaml`` says of them."""
    can_be_fetched, found = read_table(), []
    for name, fields in yaml_file(TABLE).items():
        line = _Line(**fields)
        if line.fetch is None:
            said = line.home, line.licence, line.ready
        else:
            entry = can_be_fetched[line.fetch]
            said = entry.home.removeprefix("https://"), entry.licence, f"fathom data fetch {entry.name}"
        found.append(Readable(name, line.paper, line.format, line.size, *said))
    return found
