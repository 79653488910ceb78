"""The order and the names of columns in files of triples and tables of facts, as ``--columns`` states them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ORDERS = ("hrt", "htr")
"""Columns of triples: head, relation, tail; or head, tail, relation, as FB15k and WN18 were first published."""
TABLE_COLUMNS = ("subject", "relation", "answer", "template", "id", "subject_id", "answer_id", "language")
"""Columns of a table of facts that are no groups."""


def checked_columns(value: object) -> Any:
    """Return an order of triples, or pairs such as "subject=s,answer=o", given as text or as a mapping.

    :raises ValueError: neither.
    """
    if isinstance(value, Mapping):
        value = ",".join(f"{field}={name}" for field, name in value.items())
    if value is None or value in ORDERS:
        return value
    pairs = [pair.partition("=")[::2] for pair in str(value).split(",")]
    fields, names = ([text.strip().casefold() for text in texts] for texts in zip(*pairs, strict=True))
    is_each_once = len(set(fields)) == len(fields) == len(set(names))
    if not all(names) or not set(fields) <= set(TABLE_COLUMNS) or not is_each_once:
        raise ValueError(
            f"expected hrt, htr, or pairs, each name once, of {', '.join(TABLE_COLUMNS)}: subject=…,relation=…,answer=…"
        )
    return str(value)


def renamed_columns(columns: str | None) -> dict[str, str]:
    """Return our names by those of a table: ``{"s": "subject"}`` of "subject=s"; nothing of an order of triples."""
    pairs = [pair.partition("=") for pair in (columns or "").split(",")]
    return {name.strip().casefold(): field.strip() for field, sign, name in pairs if sign}
