"""JSON objects with declared types: manifests, and the files of a model that a library would read unchecked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from fathom.base.reading.files import located, shown


class Object(BaseModel):
    """An object that may have further keys, and whose values are not converted."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class Declared(BaseModel):
    """An object with its declared keys alone."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def object_faults(
    file: Path, kind: type[BaseModel], content: object, most: int = 5, line: int | None = None
) -> list[str]:
    """Return a line for each value of another type than declared; at most so many, and one on the rest.

    :param line: of the file, where the object is in one of several.
    """
    try:
        kind.model_validate(content)
    except ValidationError as error:
        faults = list(dict.fromkeys(_describe(kind, content, fault) for fault in error.errors(include_url=False)))
        rest = [f"{len(faults) - most} more faults"] if len(faults) > most else []
        return [located(file, line, why) for why in [*faults[:most], *rest]]
    return []


def _describe(kind: type[BaseModel], content: Any, fault: Any) -> str:
    """Describe a fault by the description of its field, as one of a union has a fault for each type; else by itself."""
    where = ".".join(map(str, fault["loc"])) or "the content"
    name = str(fault["loc"][0]) if fault["loc"] else ""
    expected = kind.model_fields[name].description if name in kind.model_fields else None
    if fault["type"] == "missing" and (expected is None or where == name):
        return f"{where} is missing"
    if expected is not None:
        return f"{name} must be {expected}, found {shown(content[name])}"
    expected = "be an object {…}"
    if fault["type"] not in ("model_type", "dict_type"):  # pydantic says "Input should be a valid string"
        expected = fault["msg"].removeprefix("Input should ").removeprefix("String should ").replace("valid ", "")
    return f"{where} must {expected}, found {shown(fault['input'])}"
