"""Log-probabilities of tokens that runs kept, in columns of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

COLUMN = "token_log_probs"
STATEMENTS = 2
"""Statements of each prediction: with the best gold answer, and with the first answer if it is another."""
NOT_SCORED = 65535
"""In hundredths: a token that does not count. The script has the same number."""


class KeptTokens(NamedTuple):
    """Tokens of statements, those of each prediction next to each other.

    :param counts: of each statement, 0 if there is none, shape (predictions, STATEMENTS).
    :param texts: in the pool, shape (tokens).
    :param values: log-probabilities times −100, or :data:`NOT_SCORED`, shape (tokens).
    """

    counts: npt.NDArray[np.uint16]
    texts: npt.NDArray[np.uint32]
    values: npt.NDArray[np.uint16]

    @classmethod
    def of_table(cls, table: pa.Table, places: npt.NDArray[np.int64], number: Callable[[str], int]) -> KeptTokens:
        """Read the tokens of the predictions at *places*.

        :param number: adds a text to the pool, and returns its number.
        """
        counts = np.zeros((len(places), STATEMENTS), dtype=np.uint16)
        kept = table.column(COLUMN).take(places) if COLUMN in table.column_names else None
        if kept is None or kept.null_count == len(kept):
            return cls(counts, np.empty(0, np.uint32), np.empty(0, np.uint16))
        lists = kept.combine_chunks()
        row, statements = pc.list_parent_indices(lists).to_numpy(), lists.flatten()
        place = np.arange(len(row)) - np.searchsorted(row, row)
        tokens, values = (statements.field(name) for name in ("tokens", "log_probs"))
        counts[row, place] = pc.list_value_length(tokens).to_numpy(zero_copy_only=False)
        coded = tokens.flatten().dictionary_encode()
        numbers = np.array([number(text) for text in coded.dictionary.to_pylist()], dtype=np.uint32)
        log_probs = values.flatten().to_numpy(zero_copy_only=False)
        hundredths = np.clip(np.round(-100 * np.nan_to_num(log_probs)), 0, NOT_SCORED - 1)
        return cls(
            counts,
            numbers[coded.indices.to_numpy()],
            np.where(np.isnan(log_probs), NOT_SCORED, hundredths).astype(np.uint16),
        )

    @classmethod
    def joined(cls, parts: Sequence[KeptTokens]) -> KeptTokens:
        """Return the tokens of all views end to end."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
