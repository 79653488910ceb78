"""Options of commands that write data: ``fathom data sample``, ``examples``, ``fetch``, and ``fathom model fetch``."""

from __future__ import annotations

import calendar
import re
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from fathom.base.options import ARGUMENT, Group, Seed, opt
from fathom.base.reading.objects import Declared
from fathom.data.selection.options import Columns

NewFolder = Annotated[Path, opt(..., "Folder to write; must not exist yet.", Group.OUTPUT)]
Random = Annotated[Seed, opt(0, "Seed of every random choice.", Group.RUN)]
Graph = Annotated[str, opt(..., "A knowledge graph: its folder, or a file of triples.", Group.DATA)]
GraphArgument = Annotated[str, opt(..., "A knowledge graph: its folder, or a file of triples.", ARGUMENT)]
Device = Annotated[str | None, opt(None, "cpu, cuda, cuda:1, …; by default a GPU where there is one.", Group.RUN)]


class BuildOptions(Declared):
    """Base of the options of commands that write a folder of data."""

    group: ClassVar = Group.SELECTION


def last_day(value: object) -> Any:
    """Return the last day of a year, month or day, so that later dates are never in it.

    :raises ValueError: not a date.
    """
    if value is None or isinstance(value, date):
        return None if value is None else value.isoformat()
    match = re.fullmatch(r"(\d{4})(?:-(\d\d?)(?:-(\d\d?))?)?", str(value).strip())
    if not match:
        raise ValueError("expected a date such as 2021-12-31, 2021-12 or 2021")
    year, month = int(match[1]), int(match[2] or 12)
    if not 1 <= month <= 12:
        raise ValueError("there is no such month")
    return date(year, month, int(match[3] or calendar.monthrange(year, month)[1])).isoformat()


Day = Annotated[str, BeforeValidator(last_day)]


class SampleOptions(BuildOptions):
    """Options of ``fathom data sample``."""

    path: GraphArgument
    columns: Columns = None
    out: NewFolder
    entities: int = opt(2000, "How many entities to keep, with all triples between them.", ge=2)
    held_out_weight: float = opt(
        1.0,
        "How many training links a validation or test link counts for: above 1 keeps a greater share of them.",
        ge=0,
    )
    seed: Random = 0


class ExamplesOptions(BuildOptions):
    """Options of ``fathom data examples``."""

    out: NewFolder = opt(Path("examples"), "Folder to write; must not exist yet.", Group.OUTPUT)


class FetchModelOptions(BuildOptions):
    """Options of ``fathom model fetch``."""

    name: str | None = opt(None, "Name of a model; without it, all are listed.", ARGUMENT)
    out: Path | None = opt(None, "Folder to write; by default in the cache.", Group.OUTPUT)


class FetchOptions(BuildOptions):
    """Options of ``fathom data fetch``."""

    group: ClassVar = Group.DATA

    name: str | None = opt(None, "Name of a published data set: fathom data list.", ARGUMENT)
    out: Path | None = opt(
        None, "Folder to write; by default the cache's, where --data finds it by its name.", Group.OUTPUT
    )
    url: str | None = opt(None, "Fetch a file, zip or tar from this address instead, under NAME.")
    sha256: str | None = opt(None, "Checksum of what --url gives, if known.")
    accept: bool = opt(False, "Accept files that have changed since they were first fetched.")
