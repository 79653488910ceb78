"""Check what a message names (files, lines, options, values), not how it is worded."""

from __future__ import annotations

import re


def mentions(*parts: object) -> str:
    """Return a pattern for ``pytest.raises(match=…)``: the message contains every part, in any order."""
    return "(?s)" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)


def mentioned(message: str, *parts: object) -> bool:
    """Return whether the message contains every part."""
    return all(str(part) in message for part in parts)
