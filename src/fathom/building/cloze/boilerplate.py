"""Sentences that are no prose: addresses, rows of tables, and the special tokens of tokenizers."""

from __future__ import annotations

import re
from collections.abc import Callable, Container

BOILERPLATE = {
    "token": "holds a special token of tokenizers",
    "url": "holds an address",
    "table": "is a row of a table",
}
"""Kind, as options name it → why a sentence is left out. The first that fits counts."""
SPECIAL_TOKEN = re.compile(
    r"\[(?:MASK|CLS|SEP|PAD|UNK|BOS|EOS|unused\d+)\]"
    r"|</?s>|<(?:mask|pad|unk|cls|sep|bos|eos|eod|eop|extra_id_\d+|start_of_turn|end_of_turn)>"
    r"|<\|[a-z][a-z0-9_]*\|>"
)
"""What BERT, RoBERTa, T5, GPT and chat models write for a mask, a start or an end; a tokenizer reads them as such."""
_ADDRESS = re.compile(
    r"https?://|\bftp://|\bwww\.\w|\bdoi:\s?10\.|\b10\.\d{4,9}/\S|\b[\w.+-]+@[\w-]+\.\w|"
    r"\b[a-z0-9-]+\.(?:com|org|net|edu|gov)\b",
    re.IGNORECASE,
)
_RULED = re.compile(r"(?:^| )\|.* \|(?: |$)|\.{5}|(?:\. ){5}|_{5}|-{5}|={5}")
"""Columns with lines between them, the dots of a table of contents, or rules."""
_NUMBER = re.compile(r"[<>≤≥±+−-]?\d[\d.,:/%±–-]*")
_BEFORE_A_NUMBER = re.compile(r"(?<!\S)[^\w\s]*\d")
"""What every word that is a number begins with."""
_ROW = 6
"""Words from which a sentence that is mostly numbers is a row; "It melts at 801 °C." is none."""


def boilerplate(text: str, keep: Container[str]) -> str:
    """Of which kind a sentence is, "" for prose.

    :param keep: kinds that are not looked for.
    """
    small = text.lower()
    some = (kind for kind, marks in _MARKS.items() if any(mark in small for mark in marks))
    return next((kind for kind in some if kind not in keep and _FOUND_BY[kind](text)), "")


def _is_row(text: str) -> bool:
    if _RULED.search(text):
        return True
    words = text.split()
    if len(words) < _ROW or 2 * len(_BEFORE_A_NUMBER.findall(text)) <= len(words):
        return False
    numbers = sum(_NUMBER.fullmatch(word.strip("();,")) is not None for word in words)
    return 2 * numbers > len(words)


_MARKS = {
    "token": "[<",
    "url": ("://", "@", "www.", "doi", "10.", ".com", ".org", ".net", ".edu", ".gov"),
    "table": (*"0123456789|", ".....", ". . . .", "_____", "-----", "====="),
}
"""Without one of these a sentence is not of the kind; to look for them is faster."""
_FOUND_BY: dict[str, Callable[[str], object]] = {
    "token": SPECIAL_TOKEN.search,
    "url": _ADDRESS.search,
    "table": _is_row,
}
