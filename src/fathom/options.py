"""From what was typed to an options model; loads no model library."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from fathom.errors import BadInput

Options = TypeVar("Options", bound=BaseModel)


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
