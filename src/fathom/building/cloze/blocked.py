"""Sub-strings whose sentences are left out: the paper's list, or one of the user's own."""

from __future__ import annotations

from pathlib import Path

from fathom.errors import BadInput, refuse
from fathom.reading import NotData, Unreadable, json_value, read_text

BLOCKED_FILE = Path(__file__).parent / "blocked.txt"
"""The paper's."""


def blocked_in(path: Path) -> list[str]:
    """One sub-string per line, spaces included, in quotes if you like; lines with ``#`` are remarks.

    :raises BadInput: it cannot be read, or a line is an unfinished quotation.
    """
    try:
        lines = read_text(path).splitlines()
    except Unreadable as error:
        raise BadInput(f"--blocked {error}; expected one sub-string per line") from error
    texts, faults = [], []
    for number, line in enumerate(lines, start=1):
        if line.startswith('"'):
            try:
                texts.append(json_value(line))
            except NotData as error:
                faults.append(f'--blocked {path}:{number}: expected "text" in two quotes, found {line!r} ({error.why})')
        elif line.strip() and not line.startswith("#"):
            texts.append(line)
    if not all(texts):
        faults.append(f'--blocked {path}: "" is part of every sentence: remove it')
    refuse(faults)
    return texts
