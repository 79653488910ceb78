"""Prompts as token ids that remember what each token stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom.data.templates import Prompt, Span
from fathom.errors import BadInput


class Role(IntEnum):
    """What a token belongs to. A token that reaches into the answer is the answer's, else the subject's."""

    SPECIAL = 0
    TEMPLATE = 1
    SUBJECT = 2
    ANSWER = 3


class Bos(StrEnum):
    """Whether a causal model is shown a beginning-of-sequence token before the statement (it is never scored).

    ``auto``: where the tokenizer has one. ``add``: an error where it has none. ``none``: never; the first token of a
    statement then has nothing before it and is not scored.
    """

    AUTO = "auto"
    ADD = "add"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Tokens:
    """One prompt of n tokens.

    :param ids: shape (n,).
    :param roles: :class:`Role` of each, shape (n,).
    :param words: number of the pre-token ("word") each belongs to, −1 for special tokens, shape (n,).
    :param mixed: how many tokens hold letters from both inside and outside the answer.
    """

    ids: NDArray[np.int64]
    roles: NDArray[np.int64]
    words: NDArray[np.int64]
    mixed: int

    @property
    def answer_tokens(self) -> int:
        """How many tokens belong to the answer."""
        return int((self.roles == Role.ANSWER).sum())


def resolve_bos(tokenizer: PreTrainedTokenizerBase, policy: Bos) -> int | None:
    """The id to put before every statement, None for nothing.

    :raises BadInput: ``add`` without such a token.
    """
    if policy is Bos.NONE:
        return None
    if tokenizer.bos_token_id is None and policy is Bos.ADD:
        raise BadInput("--bos add: the tokenizer has no BOS token; use --bos auto or --bos none")
    return tokenizer.bos_token_id  # type: ignore[no-any-return]


def encode_causal(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], bos: int | None) -> list[Tokens]:
    """Each text tokenised as a whole, without special tokens but *bos*, roles by character offsets."""
    return _encode(tokenizer, prompts, special=False, first=bos)


def encode_masked(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[Tokens]:
    """Each text tokenised as a whole between the tokenizer's own special tokens, roles by character offsets."""
    return _encode(tokenizer, prompts, special=True, first=None)


class Continuation(NamedTuple):
    """What follows a context.

    :param ids: its tokens.
    :param answer_tokens: how many of them are the answer's.
    """

    ids: list[int]
    answer_tokens: int
    mixed: int


def encode_continuations(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], context: int
) -> list[Continuation] | None:
    """The tokens of prompts that share their first *context* characters, from there on.

    :returns: None where a token of some prompt reaches over the end of the context, or the context's own tokens differ
        from those it has alone: the prompts must then be tokenised one by one.
    """
    [before] = encode_causal(tokenizer, [Prompt(prompts[0].text[:context], (), ())], None)
    start = len(before.ids)
    found = []
    for tokens in encode_causal(tokenizer, prompts, None):
        if len(tokens.ids) <= start or not np.array_equal(tokens.ids[:start], before.ids):
            return None
        found.append(Continuation(tokens.ids[start:].tolist(), tokens.answer_tokens, tokens.mixed))
    return found


def _encode(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], *, special: bool, first: int | None
) -> list[Tokens]:
    if not prompts:
        return []
    batch = tokenizer([prompt.text for prompt in prompts], add_special_tokens=special, verbose=False)
    return [
        _with_roles(prompt, encoding, first) for prompt, encoding in zip(prompts, batch.encodings or (), strict=True)
    ]


def _with_roles(prompt: Prompt, encoding: object, first: int | None) -> Tokens:
    ids = np.array(encoding.ids, dtype=np.int64)  # type: ignore[attr-defined]
    offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)  # type: ignore[attr-defined]
    words = np.array([-1 if word is None else word for word in encoding.word_ids], dtype=np.int64)  # type: ignore[attr-defined]
    special = np.array(encoding.special_tokens_mask, dtype=np.bool_)  # type: ignore[attr-defined]
    # A text that spells a special token ("</s>") must be scored like any other: only what the tokenizer put around
    # the text is special, and that has no characters of its own.
    special &= offsets[:, 0] == offsets[:, 1]
    roles = np.full(len(ids), Role.TEMPLATE, dtype=np.int64)
    for spans, role in ((prompt.subject, Role.SUBJECT), (prompt.answer, Role.ANSWER)):
        for span in spans:
            roles[_touches(offsets, span)] = role
    roles[special | (offsets[:, 1] <= prompt.context) * bool(prompt.context)] = Role.SPECIAL
    mixed = sum(_is_mixed(prompt, start, end) for start, end in offsets[roles == Role.ANSWER].tolist())
    # A tokenizer may put BOS there by itself, whatever it is asked; a text that spells BOS has characters.
    if first is not None and len(ids) and ids[0] == first and not _spelled_out(prompt, encoding):
        roles[0], words[0] = Role.SPECIAL, -1
    elif first is not None:
        ids, words = np.append(first, ids), np.append(-1, words)
        roles = np.append(int(Role.SPECIAL), roles)
    return Tokens(ids, roles, words, mixed)


def _spelled_out(prompt: Prompt, encoding: object) -> bool:
    """Whether the first token is what the text itself begins with."""
    start, end = encoding.offsets[0]  # type: ignore[attr-defined]
    return prompt.text[start:end] == encoding.tokens[0]  # type: ignore[attr-defined,no-any-return]


def _touches(offsets: NDArray[np.int64], span: Span) -> NDArray[np.bool_]:
    """Tokens that share a character with *span*.

    A token without characters is a space whose offsets were trimmed: it stands for the character before its place.
    """
    start, end = offsets[:, 0], offsets[:, 1]
    return (start < span.end) & (end > span.start)


def _is_mixed(prompt: Prompt, start: int, end: int) -> bool:
    inside = set().union(*(range(max(start, span.start), min(end, span.end)) for span in prompt.answer))
    return any(not prompt.text[i].isspace() for i in range(start, end) if i not in inside)


def token_counter(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[str]], list[int]]:
    """Counts the tokens of each text as it is, special ones left out."""

    def count(texts: list[str]) -> list[int]:
        found = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        return [len(ids) for ids in found]

    return count
