"""From what was typed to an options model; loads no model library."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.config import JsonDict

from fathom.errors import BadInput

Options = TypeVar("Options", bound=BaseModel)

CIRCUMSTANCE: JsonDict = {"circumstance": True}
"""Marks a field that changes how something goes but none of its numbers: it may differ when it is resumed."""
ASKING: JsonDict = {"asking": True}
"""Marks a field of a link predictor that may differ between training and asking."""


def marked(kind: type[BaseModel], mark: str) -> set[str]:
    """Names of the fields with that mark, such as "circumstance"."""
    return {
        name
        for name, field in kind.model_fields.items()
        if isinstance(field.json_schema_extra, dict) and field.json_schema_extra.get(mark)
    }


def separated(value: Any) -> Any:
    """ "a,b" as typed on a command line becomes ("a", "b"); YAML and Python may give lists. Twice is once."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, int):
        value = [value]
    return tuple(dict.fromkeys(value)) if isinstance(value, list | tuple) else value


def parse_options(kind: type[Options], given: dict[str, Any]) -> Options:
    """:raises BadInput: one line per option that is unknown or out of range."""
    try:
        return kind(**given)
    except ValidationError as error:
        raise BadInput([_option_fault(kind, fault) for fault in error.errors()]) from error


def _option_fault(kind: type[BaseModel], fault: Any) -> str:
    name = str(fault["loc"][0])
    option = "--" + name.replace("_", "-")
    if fault["type"] == "extra_forbidden":
        return f"there is no option {option}: there is {', '.join(sorted(kind.model_fields))}"
    return f"{option}: {fault['msg']}, found {fault['input']!r}"


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML file that holds a mapping. :raises BadInput: it cannot be read, or holds something else."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{file} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise BadInput(f"{file}{line}: not YAML: {getattr(error, 'problem', error)}") from error
    if not isinstance(content, dict):
        raise BadInput(f"{file}: expected 'option: value' lines, found {type(content).__name__}")
    return content
