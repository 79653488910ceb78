"""Prompts as token ids that remember what each token stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import chain, pairwise
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.data.templates import Prompt, Span
from fathom.errors import BadInput


class Role(IntEnum):
    """What a token belongs to. A token that reaches into the answer is the answer's, else the subject's."""

    SPECIAL = 0
    TEMPLATE = 1
    SUBJECT = 2
    ANSWER = 3


OWN = ("__call__", "_encode_plus")
"""Where tokenizers of transformers that do something else to a text do it."""

TOKENISING = Lock()
"""A tokenizer that is told not to cut must not be at work in another thread (:mod:`fathom.scoring.ahead`)."""


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
    """All at once: millions of statements wait for this, and a call to NumPy for each takes longer than tokenising."""
    if not prompts:
        return []
    encodings = _encodings(tokenizer, [prompt.text for prompt in prompts], special)
    row = _Rows.of(encodings)
    roles = _roles(prompts, row)
    mixed = _mixed(prompts, row, roles)
    if first is not None:
        row, roles = _with_bos(prompts, encodings, row, roles, first)
    return [
        Tokens(row.ids[start:end], roles[start:end], row.words[start:end], count)
        for (start, end), count in zip(pairwise(row.bounds.tolist()), mixed, strict=True)
    ]


def _encodings(tokenizer: PreTrainedTokenizerBase, texts: list[str], special: bool) -> Sequence[Any]:
    """Of the tokenizers library: by itself where transformers would add nothing but lists that nobody reads, which
    take as long again."""
    with TOKENISING:
        if not all(getattr(type(tokenizer), name, None) is getattr(PreTrainedTokenizerFast, name) for name in OWN):
            return tokenizer(texts, add_special_tokens=special, verbose=False).encodings or ()
        tokenizer(texts[:1], add_special_tokens=special, verbose=False)  # switches off what cuts and pads
        found: Sequence[Any] = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=special)
        return found


class _Rows(NamedTuple):
    """Encoded texts, one behind the other; of each token, shape (tokens,):

    :param start: its first character, and *end*: one past its last.
    :param words: see :class:`Tokens`.
    :param special: put around the text by the tokenizer.
    :param text: number of its text.
    :param bounds: where each text begins, and the end, shape (texts + 1,).
    """

    ids: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    words: NDArray[np.int64]
    special: NDArray[np.bool_]
    text: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def of(cls, encodings: Sequence[Any]) -> _Rows:
        """:param encodings: of the tokenizers library."""
        lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        offsets = _flat(chain.from_iterable(encoding.offsets for encoding in encodings)).reshape(-1, 2)
        start, end = np.ascontiguousarray(offsets.T)
        words = _flat([-1 if word is None else word for word in encoding.word_ids] for encoding in encodings)
        # A text that spells a special token ("</s>") must be scored like any other: only what the tokenizer put around
        # the text is special, and that has no characters of its own.
        special = _flat(encoding.special_tokens_mask for encoding in encodings).astype(bool) & (start == end)
        text = np.repeat(np.arange(len(encodings)), lengths)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        return cls(_flat(encoding.ids for encoding in encodings), start, end, words, special, text, bounds)


def _roles(prompts: Sequence[Prompt], row: _Rows) -> NDArray[np.int64]:
    """:returns: :class:`Role` of each token, shape (tokens,)."""
    roles = np.full(len(row.ids), int(Role.TEMPLATE), dtype=np.int64)
    for role, spans in (
        (Role.SUBJECT, [prompt.subject for prompt in prompts]),
        (Role.ANSWER, [prompt.answer for prompt in prompts]),
    ):
        for start, end in _layers(spans):
            # Those that share a character with the span. A token without characters is a space whose offsets were
            # trimmed: it stands for the character before its place.
            roles[(row.start < end[row.text]) & (row.end > start[row.text])] = role
    context = np.array([prompt.context for prompt in prompts], dtype=np.int64)[row.text]
    roles[row.special | ((context > 0) & (row.end <= context))] = Role.SPECIAL
    return roles


def _flat(values: Iterable[Iterable[int]]) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(values), dtype=np.int64)


def _layers(spans: Sequence[Sequence[tuple[int, int]]]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The first span of every text, then the second, …

    :returns: starts and ends, shape (texts,) each; an empty span at 0 where a text has no such one.
    """
    for number in range(max(map(len, spans))):
        layer = _flat(own[number] if number < len(own) else (0, 0) for own in spans).reshape(-1, 2)
        yield layer[:, 0], layer[:, 1]


def _mixed(prompts: Sequence[Prompt], row: _Rows, roles: NDArray[np.int64]) -> list[int]:
    """How many tokens of each text hold letters from both inside and outside the answer."""
    clean = roles != Role.ANSWER
    for start, end in _layers([[_with_space(prompt.text, span) for span in prompt.answer] for prompt in prompts]):
        clean |= (row.start >= start[row.text]) & (row.end <= end[row.text])
    mixed = [0] * len(prompts)
    for place in np.flatnonzero(~clean).tolist():
        text = int(row.text[place])
        mixed[text] += _is_mixed(prompts[text], int(row.start[place]), int(row.end[place]))
    return mixed


def _with_space(text: str, span: Span) -> tuple[int, int]:
    """*span* and the white space around it."""
    start, end = span
    while start and text[start - 1].isspace():
        start -= 1
    while end < len(text) and text[end].isspace():
        end += 1
    return start, end


def _is_mixed(prompt: Prompt, start: int, end: int) -> bool:
    inside = set().union(*(range(max(start, span.start), min(end, span.end)) for span in prompt.answer))
    return any(not prompt.text[i].isspace() for i in range(start, end) if i not in inside)


def _with_bos(
    prompts: Sequence[Prompt], encodings: Sequence[Any], row: _Rows, roles: NDArray[np.int64], first: int
) -> tuple[_Rows, NDArray[np.int64]]:
    """The rows, each with *first* in front, which is never scored.

    A tokenizer may put it there by itself, whatever it is asked; a text that spells it has characters.
    """
    begins, filled = row.bounds[:-1], np.diff(row.bounds) > 0
    there = np.zeros(len(prompts), dtype=bool)
    there[filled] = row.ids[begins[filled]] == first
    for text in np.flatnonzero(there).tolist():
        there[text] = not _spelled_out(prompts[text], encodings[text])
    roles, words = roles.copy(), row.words.copy()
    roles[begins[there]], words[begins[there]] = Role.SPECIAL, -1
    before = begins[~there]
    longer = row._replace(
        ids=np.insert(row.ids, before, first),
        words=np.insert(words, before, -1),
        bounds=row.bounds + np.concatenate([[0], np.cumsum(~there)]),
    )
    return longer, np.insert(roles, before, int(Role.SPECIAL))


def _spelled_out(prompt: Prompt, encoding: Any) -> bool:
    """Whether the first token is what the text itself begins with."""
    start, end = encoding.offsets[0]
    return bool(prompt.text[start:end] == encoding.tokens[0])


def token_counter(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[str]], list[int]]:
    """Counts the tokens of each text as it is, special ones left out."""

    def count(texts: list[str]) -> list[int]:
        found = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        return [len(ids) for ids in found]

    return count
