"""Prompts as token ids with the role of each token, and names as token ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from itertools import chain, islice, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.base.errors import BadInput, is_panic
from fathom.data.templates import Prompt, Span


class Role(IntEnum):
    """The part of a prompt that a token belongs to; the answer takes precedence over the subject.

    The white space before an answer is the answer's: in some tokenizers it is part of the answer's first token, in
    others a token of its own ("Ġ" before a digit), and all candidates are to be scored over the same text.
    """

    SPECIAL = 0
    TEMPLATE = 1
    SUBJECT = 2
    ANSWER = 3


OVERRIDDEN = ("__call__", "_encode_plus")
"""Methods in which some tokenizers of transformers change the text."""
SCORED_TEXT = {"answer_text": "with the white space before it"}
"""Part of the identity of runs that score answers by themselves: earlier ones did not score a space of its own."""
ANCHOR = ","
"""Text before a name that is tokenised with a leading space."""
_BLOCK = 8192
"""Prompts encoded together: of each the tokenizers library keeps some kilobytes meanwhile."""


class Bos(StrEnum):
    """Policy on a beginning-of-sequence token before a causal model's statement; it is never scored.

    ``auto``: if the tokenizer has one; before statements else EOS. ``add``: an error if it has none. ``none``: never;
    the first token of a statement is then not scored, nor is a candidate that this token is a part of.
    """

    AUTO = "auto"
    ADD = "add"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Tokens:
    """One prompt of n tokens.

    :param ids: shape (n,).
    :param roles: :class:`Role` of each, shape (n,).
    :param words: number of the pre-token ("word") of each, −1 for special tokens, shape (n,).
    :param mixed: number of tokens with letters from both inside and outside the answer.
    :param spans: characters [start, end) of each, (0, 0) of tokens that were added, shape (n, 2); for
        :func:`token_texts` alone.
    """

    ids: NDArray[np.int64]
    roles: NDArray[np.int64]
    words: NDArray[np.int64]
    mixed: int
    spans: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    @property
    def answer_tokens(self) -> int:
        return int((self.roles == Role.ANSWER).sum())


def resolve_bos(tokenizer: PreTrainedTokenizerBase, policy: Bos) -> int | None:
    """Return the id to put before each statement, None for nothing.

    :raises BadInput: ``add`` without such a token.
    """
    if policy is Bos.NONE:
        return None
    if tokenizer.bos_token_id is None and policy is Bos.ADD:
        raise BadInput("--bos add: the tokenizer has no BOS token; use --bos auto or --bos none")
    return tokenizer.bos_token_id  # type: ignore[no-any-return]


def resolve_first(tokenizer: PreTrainedTokenizerBase, policy: Bos) -> int | None:
    """Return the id to put before a statement, so that its first token has a context: BOS, else EOS; None for nothing.

    EOS separates documents in models without BOS (Qwen), as lm-evaluation-harness has it.

    :raises BadInput: ``add`` without BOS.
    """
    bos = resolve_bos(tokenizer, policy)
    return tokenizer.eos_token_id if bos is None and policy is Bos.AUTO else bos


def align_answers(statements: Sequence[Tokens], candidates: int) -> list[Tokens]:
    """Let the answers of a query's candidates begin where their tokens part, if that is before the answer.

    A token may reach from the prompt into the answer ("wor" + "ld"), or a prompt be tokenised otherwise before another
    answer. The candidates are then scored over the same text all the same.

    :param candidates: so many statements in a row are of one query.
    """
    of_query = (statements[start : start + candidates] for start in range(0, len(statements), candidates))
    return [tokens for candidate_tokens in of_query for tokens in _aligned(candidate_tokens)]


def _aligned(candidates: Sequence[Tokens]) -> list[Tokens]:
    shortest = min(len(tokens.ids) for tokens in candidates)
    rows = np.array([tokens.ids[:shortest] for tokens in candidates])
    differs = (rows != rows[0]).any(axis=0)
    parted = int(differs.argmax()) if differs.any() else shortest
    return [_with_answer_from(tokens, parted) for tokens in candidates]


def _with_answer_from(tokens: Tokens, place: int) -> Tokens:
    answer = np.flatnonzero(tokens.roles == Role.ANSWER)
    if not len(answer) or answer[0] <= place:
        return tokens
    roles = tokens.roles.copy()
    between = roles[place : answer[0]]
    between[between != Role.SPECIAL] = Role.ANSWER
    return replace(tokens, roles=roles)


def encode_causal(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], bos: int | None) -> list[Tokens]:
    """Tokenise each text as a whole, without special tokens but *bos*; roles follow from character offsets."""
    return _encode(tokenizer, prompts, special=False, first=bos)


def encode_masked(tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt]) -> list[Tokens]:
    """Tokenise each text as a whole with the tokenizer's own special tokens; roles follow from character offsets."""
    return _encode(tokenizer, prompts, special=True, first=None)


class Continuation(NamedTuple):
    """The tokens after a context.

    :param ids: shape (n,).
    :param answer_tokens: how many of *ids* are the answer's.
    :param mixed: see :class:`Tokens`.
    """

    ids: NDArray[np.int32]
    answer_tokens: int
    mixed: int


def encode_continuations(
    tokenizer: PreTrainedTokenizerBase, context: str, prompts: Iterable[Prompt]
) -> list[Continuation] | None:
    """Return the tokens of prompts after the *context* with which they begin.

    :param prompts: may be made as they are read: of a million there is never more than a block.
    :returns: None if a token crosses the end of the context, or the context's tokens differ from those it has alone.
        The prompts must then be tokenised one by one.
    """
    [before] = encode_causal(tokenizer, [Prompt(context, (), ())], None)
    start = len(before.ids)
    continuations, rest = [], iter(prompts)
    while block := list(islice(rest, _BLOCK)):
        for tokens in encode_causal(tokenizer, block, None):
            if len(tokens.ids) <= start or not np.array_equal(tokens.ids[:start], before.ids):
                return None
            continuations.append(Continuation(tokens.ids[start:].astype(np.int32), tokens.answer_tokens, tokens.mixed))
    return continuations


def _encode(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[Prompt], *, special: bool, first: int | None
) -> list[Tokens]:
    """Process all prompts at once: a call to NumPy for each would take longer than tokenising."""
    if not prompts:
        return []
    encodings = _encodings(tokenizer, [prompt.text for prompt in prompts], special)
    row = _Encodings.from_encodings(encodings)
    roles = _roles(prompts, row)
    mixed = _mixed(prompts, row, roles)
    if first is not None:
        row, roles = _with_bos(prompts, encodings, row, roles, first)
    spans = np.column_stack([row.start, row.end])
    return [
        Tokens(row.ids[start:end], roles[start:end], row.words[start:end], count, spans[start:end])
        for (start, end), count in zip(pairwise(row.bounds.tolist()), mixed, strict=True)
    ]


def token_texts(tokenizer: PreTrainedTokenizerBase, text: str, tokens: Tokens) -> list[str]:
    """Return the part of *text* that each token stands for, with the white space before it.

    A character of several tokens is part of the first alone. Tokens that were added have their own names.
    """
    texts, before = [], 0
    for id_, (start, end) in zip(tokens.ids.tolist(), tokens.spans.tolist(), strict=True):
        if end == 0:
            texts.append(str(tokenizer.convert_ids_to_tokens(id_)))
            continue
        # More than white space in front is another part of the text: an encoder-decoder's source.
        begin = before if start < before or text[before:start].isspace() else start
        texts.append(text[begin:end])
        before = max(before, end)
    return texts


def _encodings(tokenizer: PreTrainedTokenizerBase, texts: list[str], special: bool) -> Sequence[Encoding]:
    """:raises BadInput: a pattern of the tokenizer fails on a text."""
    try:
        return _encoded(tokenizer, texts, special)
    except BaseException as error:
        if not is_panic(error):
            raise
        name, reason = tokenizer.name_or_path, str(error).splitlines()[0]
        raise BadInput(f"the tokenizer of '{name}' (tokenizer.json) fails on a text: {reason}") from error


def _encoded(tokenizer: PreTrainedTokenizerBase, texts: list[str], special: bool) -> Sequence[Encoding]:
    """Call the tokenizers library directly unless transformers changes the text; its unused lists double the time."""
    if not all(getattr(type(tokenizer), name, None) is getattr(PreTrainedTokenizerFast, name) for name in OVERRIDDEN):
        return tokenizer(texts, add_special_tokens=special, verbose=False).encodings or ()
    tokenizer(texts[:1], add_special_tokens=special, verbose=False)  # switches off truncation and padding
    encodings: Sequence[Encoding] = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=special)
    return encodings


class _Encodings(NamedTuple):
    """Concatenated encoded texts. All of shape (tokens,) but *bounds*.

    :param start: first character of each token; *end* is one past its last.
    :param words: see :class:`Tokens`.
    :param special: added by the tokenizer.
    :param text: number of the token's text.
    :param bounds: start of each text, and the end, shape (texts + 1,).
    """

    ids: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    words: NDArray[np.int64]
    special: NDArray[np.bool_]
    text: NDArray[np.int64]
    bounds: NDArray[np.int64]

    @classmethod
    def from_encodings(cls, encodings: Sequence[Encoding]) -> _Encodings:
        lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        offsets = _flat(chain.from_iterable(encoding.offsets for encoding in encodings)).reshape(-1, 2)
        start, end = np.ascontiguousarray(offsets.T)
        words = _flat([-1 if word is None else word for word in encoding.word_ids] for encoding in encodings)
        # A text that spells a special token ("</s>") is scored like any other: only tokens that the tokenizer added are
        # special, and those have no characters.
        special = _flat(encoding.special_tokens_mask for encoding in encodings).astype(bool) & (start == end)
        text = np.repeat(np.arange(len(encodings)), lengths)
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        return cls(_flat(encoding.ids for encoding in encodings), start, end, words, special, text, bounds)


def _roles(prompts: Sequence[Prompt], row: _Encodings) -> NDArray[np.int64]:
    """Return the :class:`Role` of each token, shape (tokens,)."""
    roles = np.full(len(row.ids), int(Role.TEMPLATE), dtype=np.int64)
    answers = [[_after_space(prompt.text, span) for span in prompt.answer] for prompt in prompts]
    for role, spans in ((Role.SUBJECT, [prompt.subject for prompt in prompts]), (Role.ANSWER, answers)):
        for start, end in _layers(spans):
            # Tokens that share a character with the span. A token without characters is a space with trimmed offsets:
            # it represents the character before its place.
            roles[(row.start < end[row.text]) & (row.end > start[row.text])] = role
    context = np.array([prompt.context for prompt in prompts], dtype=np.int64)[row.text]
    roles[row.special | ((context > 0) & (row.end <= context))] = Role.SPECIAL
    return roles


def _flat(values: Iterable[Iterable[int]]) -> NDArray[np.int64]:
    return np.fromiter(chain.from_iterable(values), dtype=np.int64)


def _layers(spans: Sequence[Sequence[tuple[int, int]]]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield starts and ends of the first span of each text, then the second, …, shape (texts,) each."""
    for number in range(max(map(len, spans))):
        layer = _flat(spanned[number] if number < len(spanned) else (0, 0) for spanned in spans).reshape(-1, 2)
        yield layer[:, 0], layer[:, 1]


def _mixed(prompts: Sequence[Prompt], row: _Encodings, roles: NDArray[np.int64]) -> list[int]:
    """Count the tokens of each text with letters from both inside and outside the answer."""
    clean = roles != Role.ANSWER
    for start, end in _layers([[_with_space(prompt.text, span) for span in prompt.answer] for prompt in prompts]):
        clean |= (row.start >= start[row.text]) & (row.end <= end[row.text])
    mixed = [0] * len(prompts)
    for place in np.flatnonzero(~clean).tolist():
        text = int(row.text[place])
        mixed[text] += _is_mixed(prompts[text], int(row.start[place]), int(row.end[place]))
    return mixed


def _after_space(text: str, span: Span) -> tuple[int, int]:
    """Extend *span* by the white space before it."""
    start, end = span
    while start and text[start - 1].isspace():
        start -= 1
    return start, end


def _with_space(text: str, span: Span) -> tuple[int, int]:
    """Extend *span* by the white space around it."""
    start, end = _after_space(text, span)
    while end < len(text) and text[end].isspace():
        end += 1
    return start, end


def _is_mixed(prompt: Prompt, start: int, end: int) -> bool:
    inside = set().union(*(range(max(start, span.start), min(end, span.end)) for span in prompt.answer))
    return any(not prompt.text[i].isspace() for i in range(start, end) if i not in inside)


def _with_bos(
    prompts: Sequence[Prompt], encodings: Sequence[Encoding], row: _Encodings, roles: NDArray[np.int64], first: int
) -> tuple[_Encodings, NDArray[np.int64]]:
    """Put *first*, which is never scored, in front of each text."""
    begins, filled = row.bounds[:-1], np.diff(row.bounds) > 0
    present = np.zeros(len(prompts), dtype=bool)
    present[filled] = row.ids[begins[filled]] == first
    for text in np.flatnonzero(present).tolist():
        present[text] = not _spelled_out(prompts[text], encodings[text])
    roles, words = roles.copy(), row.words.copy()
    roles[begins[present]], words[begins[present]] = Role.SPECIAL, -1
    before = begins[~present]
    longer = row._replace(
        ids=np.insert(row.ids, before, first),
        start=np.insert(row.start, before, 0),
        end=np.insert(row.end, before, 0),
        words=np.insert(words, before, -1),
        bounds=row.bounds + np.concatenate([[0], np.cumsum(~present)]),
    )
    return longer, np.insert(roles, before, int(Role.SPECIAL))


def _spelled_out(prompt: Prompt, encoding: Encoding) -> bool:
    """Check whether the first token is the start of the text itself."""
    start, end = encoding.offsets[0]
    return bool(prompt.text[start:end] == encoding.tokens[0])


def token_counter(tokenizer: PreTrainedTokenizerBase) -> Callable[[list[str]], list[int]]:
    """Return a function that counts the tokens of each text, without special ones."""

    def count(texts: list[str]) -> list[int]:
        return [len(ids) for ids in _encode_alone(tokenizer, texts)]

    return count


def name_tokens(tokenizer: PreTrainedTokenizerBase, names: Sequence[str], *, leading_space: bool) -> list[list[int]]:
    """Return the tokens of each name alone, or after a word and a space."""
    return _tokens_after(tokenizer, names, ANCHOR, " ") if leading_space else _encode_alone(tokenizer, names)


def tokens_in_place(tokenizer: PreTrainedTokenizerBase, names: Sequence[str], before: str) -> list[list[int]]:
    """Return the tokens of each name after the text *before*; only its :func:`context_of` matters."""
    context = context_of(before)
    if context == " ":
        return name_tokens(tokenizer, names, leading_space=True)
    return _tokens_after(tokenizer, names, context, "") if context else _encode_alone(tokenizer, names)


def context_of(before: str) -> str:
    """Return the part of *before* that a name's tokens depend on: a space, or the last letter or sign; or ""."""
    return " " if before[-1:].isspace() else before[-1:]


def _tokens_after(tokenizer: PreTrainedTokenizerBase, names: Sequence[str], anchor: str, space: str) -> list[list[int]]:
    """Return the tokens of each name after *anchor*."""
    [before] = _encode_alone(tokenizer, [anchor])
    anchored = _encode_alone(tokenizer, [anchor + space + name for name in names])
    keeps = [ids[: len(before)] == before for ids in anchored]
    changing = [name for name, kept in zip(names, keeps, strict=True) if not kept]
    if anchor == ANCHOR:
        others = iter(_encode_alone(tokenizer, [space + name for name in changing]))
    else:
        others = iter(_tokens_after(tokenizer, changing, ANCHOR, space))
    return [ids[len(before) :] if kept else next(others) for ids, kept in zip(anchored, keeps, strict=True)]


def only_unknown(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
    """Find texts that consist of the unknown token only, and so cannot be distinguished.

    :param tokens: of each text.
    :returns: shape (texts,); false for texts without tokens.
    """
    unknown = tokenizer.unk_token_id
    return np.array([bool(ids) and all(id_ == unknown for id_ in ids) for ids in tokens], dtype=bool)


def unknown_reason(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the reason to exclude a text of :func:`only_unknown`."""
    return f"tokenises to {tokenizer.unk_token} only"


def single_tokens(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Return the token of each single-token name, −1 for longer or unknown ones.

    :param tokens: of each name, see :func:`name_tokens`.
    """
    unknown = tokenizer.unk_token_id
    return np.array([ids[0] if len(ids) == 1 and ids[0] != unknown else -1 for ids in tokens], dtype=np.int64)


def _encode_alone(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    return tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"]  # type: ignore[no-any-return]
