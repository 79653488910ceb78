"""Sentences without prose (addresses, rows of tables, special tokens), and lists of blocked sub-strings."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from pathlib import Path

from fathom.errors import BadInput, refuse
from fathom.reading import NotData, Unreadable, json_value, read_text

BLOCKED_FILE = Path(__file__).with_name("blocked.txt")
"""The paper's list."""
BOILERPLATE = {
    "token": "holds a special token of tokenizers",
    "url": "holds an address",
    "table": "is a row of a table",
}
"""Kind, as in the option ``keep`` → why a sentence is dropped. The first that fits counts."""
SPECIAL_TOKEN = re.compile(
    r"\[(?:MASK|CLS|SEP|PAD|UNK|BOS|EOS|unused\d+)\]"
    r"|</?s>|<(?:mask|pad|unk|cls|sep|bos|eos|eod|eop|extra_id_\d+|start_of_turn|end_of_turn)>"
    r"|<\|[a-z][a-z0-9_]*\|>"
)
"""Tokens of BERT, RoBERTa, T5, GPT and chat models for a mask, a start or an end."""
_ADDRESS = re.compile(
    r"https?://|\bftp://|\bwww\.\w|\bdoi:\s?10\.|\b10\.\d{4,9}/\S|\b[\w.+-]+@[\w-]+\.\w|"
    r"\b[a-z0-9-]+\.(?:com|org|net|edu|gov)\b",
    re.IGNORECASE,
)
_RULED = re.compile(r"(?:^| )\|.* \|(?: |$)|\.{5}|(?:\. ){5}|_{5}|-{5}|={5}")
"""Ruled columns, the dots of a table of contents, or rules."""
_NUMBER = re.compile(r"[<>≤≥±+−-]?\d[\d.,:/%±–-]*")
_BEFORE_A_NUMBER = re.compile(r"(?<!\S)[^\w\s]*\d")
"""The beginning of all words that are numbers."""
_ROW = 6
"""Minimum words of a row, most of which are numbers; "It melts at 801 °C." is none."""


def boilerplate(text: str, keep: Container[str]) -> str:
    """Return the kind of a sentence, "" for prose; ignore the kinds in *keep*."""
    return next((kind for kind, check in _CHECKS.items() if kind not in keep and check(text)), "")


def _is_row(text: str) -> bool:
    if _RULED.search(text):
        return True
    words = text.split()
    if len(words) < _ROW or 2 * len(_BEFORE_A_NUMBER.findall(text)) <= len(words):
        return False
    numbers = sum(_NUMBER.fullmatch(word.strip("();,")) is not None for word in words)
    return 2 * numbers > len(words)


_CHECKS: dict[str, Callable[[str], object]] = {"token": SPECIAL_TOKEN.search, "url": _ADDRESS.search, "table": _is_row}


def read_blocked(path: Path) -> list[str]:
    """Read one sub-string per line, spaces included, optionally in quotes; lines with ``#`` are comments.

    :raises BadInput: it cannot be read, or a quote is not closed.
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
