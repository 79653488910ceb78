"""What was typed wrongly, in one line as all other faults; Typer would draw a box of several."""

from __future__ import annotations

import re
from typing import Any

from typer import BadParameter

from fathom.options import value_fault

Refused: type[Exception] = BadParameter.__bases__[0]
"""What Typer raises of a command line that it refuses: click's UsageError, of which Typer has a copy of its own."""


REPLACED = {
    **dict.fromkeys(("pools", "readings", "wording", "robustness"), "compare RUN RUN…"),
    "templates": "metrics RUN --by relation+template",
}
"""Former studies, and what to type instead."""


def refusal(error: Any) -> str:
    """One line: what was typed, found, expected. "" where the help was shown instead.

    :param error: of :data:`Refused`.
    """
    kind = type(error).__name__
    if kind == "NoArgsIsHelpError":
        return ""
    if kind == "NoSuchOption":
        meant = " or ".join(error.possibilities or ())
        return f"there is no option {error.option_name}{f' (did you mean {meant}?)' if meant else ''}{_more(error)}"
    option = getattr(error, "param", None)
    named = re.match(r"No such command '([^']+)'", error.format_message())
    if named and named[1] in REPLACED:
        return f"fathom study {named[1]} was replaced: type fathom {REPLACED[named[1]]}"
    if option is None:
        return f"{' '.join(error.format_message().split()).rstrip('.')}{_more(error)}"
    name = max(option.opts, key=len) if option.param_type_name == "option" else (option.name or "")
    if kind == "MissingParameter":
        return f"{name} is missing: expected {(getattr(option, 'help', '') or option.param_type_name).rstrip('.')}"
    return f"{name}: {_expected(error)}"


def _expected(error: Any) -> str:
    """What Typer says of a value; with the value where pydantic looked at it."""
    checked = getattr(error.__cause__, "errors", None)
    if checked is None:
        return " ".join(str(error.message).split())
    return value_fault(checked()[0])


def _more(error: Any) -> str:
    return f"; {error.ctx.command_path} --help lists what there is" if error.ctx else ""
