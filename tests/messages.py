"""Check what a message names (files, lines, options, values), not how it is worded.

A part may be a tuple of parts, as in the tables of parametrized tests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable


def flattened(parts: Iterable[object]) -> list[str]:
    """Return the parts as texts, those of tuples included."""
    return [text for part in parts for text in (flattened(part) if isinstance(part, tuple) else [str(part)])]


def mentions(*parts: object) -> str:
    """Return a pattern for ``pytest.raises(match=…)``: the message contains every part, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(part)})" for part in flattened(parts))


def mentioned(message: str, *parts: object) -> bool:
    """Return whether the message contains every part."""
    return all(part in message for part in flattened(parts))


def stated(text: str | Iterable[str], *parts: object) -> bool:
    """Return whether one line of a text, or one of several messages, contains every part."""
    return any(mentioned(line, *parts) for line in (text.splitlines() if isinstance(text, str) else text))


def correspond(messages: Collection[str | None], *expected: object) -> bool:
    """Return whether each message contains the part at its place; ``None`` stands for no message."""
    return len(messages) == len(expected) and all(
        message is part if message is None or part is None else mentioned(message, part)
        for message, part in zip(messages, expected, strict=True)
    )
