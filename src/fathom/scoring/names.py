"""Names as tokens: which of them a vocabulary holds as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

ANCHOR = ","
"""What a name stands behind when it is tokenised with a leading space."""


def name_tokens(tokenizer: PreTrainedTokenizerBase, names: Sequence[str], *, leading_space: bool) -> list[list[int]]:
    """The tokens of each name alone, or as it stands behind a word and a space."""
    return _tokens_behind(tokenizer, names, ANCHOR, " ") if leading_space else _encode(tokenizer, names)


def tokens_in_place(tokenizer: PreTrainedTokenizerBase, names: Sequence[str], before: str) -> list[list[int]]:
    """The tokens of each name as it stands behind the text *before*, of which :func:`what_counts` counts."""
    counts = what_counts(before)
    if counts == " ":
        return name_tokens(tokenizer, names, leading_space=True)
    return _tokens_behind(tokenizer, names, counts, "") if counts else _encode(tokenizer, names)


def what_counts(before: str) -> str:
    """What a name's tokens depend on in the text before it: a space, a sign such as "(", or "" (nothing, a letter)."""
    last = before[-1:]
    if last.isspace():
        return " "
    return "" if last.isalnum() else last


def _tokens_behind(
    tokenizer: PreTrainedTokenizerBase, names: Sequence[str], anchor: str, space: str
) -> list[list[int]]:
    """Where the anchor does not keep its own tokens before a name, the name's tokens alone."""
    [before] = _encode(tokenizer, [anchor])
    found = _encode(tokenizer, [anchor + space + name for name in names])
    kept = [ids[: len(before)] == before for ids in found]
    alone = iter(_encode(tokenizer, [space + name for name, keeps in zip(names, kept, strict=True) if not keeps]))
    return [ids[len(before) :] if keeps else next(alone) for ids, keeps in zip(found, kept, strict=True)]


def only_unknown(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Whether each text is nothing but the token for what the vocabulary lacks: it says nothing, as all its like.

    :param tokens: of each text, [n].
    :returns: [n]; false for texts without tokens.
    """
    unknown = tokenizer.unk_token_id
    return np.array([bool(ids) and all(id_ == unknown for id_ in ids) for ids in tokens], dtype=bool)


def said_unknown(tokenizer: PreTrainedTokenizerBase) -> str:
    """The reason to leave such a text out."""
    return f"tokenises to {tokenizer.unk_token} only"


def single_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The token of each name that is one, −1 for the others: longer ones, and those the vocabulary does not know.

    :param tokens: of each name, see :func:`name_tokens`.
    """
    unknown = tokenizer.unk_token_id
    return np.array([ids[0] if len(ids) == 1 and ids[0] != unknown else -1 for ids in tokens], dtype=np.int64)


def _encode(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    return tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]  # type: ignore[no-any-return]
