"""Names as tokens: which of them a vocabulary holds as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

ANCHOR = ","
"""What a name stands behind when it is tokenised with a leading space."""


def name_tokens(tokenizer: PreTrainedTokenizerBase, names: Sequence[str], *, leading_space: bool) -> list[list[int]]:
    """The tokens of each name alone, or as it stands behind a word and a space."""
    if not names:
        return []
    if not leading_space:
        return _encode(tokenizer, names)
    [anchor] = _encode(tokenizer, [ANCHOR])
    found = _encode(tokenizer, [f"{ANCHOR} {name}" for name in names])
    return [ids[len(anchor) :] if ids[: len(anchor)] == anchor else ids for ids in found]


def single_tokens(
    tokenizer: PreTrainedTokenizerBase, names: Sequence[str], *, leading_space: bool
) -> NDArray[np.int64]:
    """The token of each name that is one, −1 for the others: longer ones, and those the vocabulary does not know."""
    unknown = tokenizer.unk_token_id
    return np.array(
        [
            ids[0] if len(ids) == 1 and ids[0] != unknown else -1
            for ids in name_tokens(tokenizer, names, leading_space=leading_space)
        ],
        dtype=np.int64,
    )


def token_counter(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[str]], list[int]]:
    """Counts the tokens of each text as it is, special ones left out."""
    return lambda texts: [len(ids) for ids in _encode(tokenizer, texts)]


def _encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    return tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]  # type: ignore[no-any-return]
