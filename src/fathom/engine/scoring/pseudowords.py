"""Pseudowords: meaningless embeddings for things that no model can know (Wu et al. 2023, section 3.2.2).

In texts for causal models a short word stands for each pseudoword, and its row replaces the word's tokens. A score is
the log-likelihood of all from the answer on, given what precedes; a pseudoword after it is seen but not scored.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.data.templates import ANSWER, Prompt, Span
from fathom.engine.models.base import Attention, Model
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.slots import LEARNT
from fathom.engine.scoring.statements import Reduction, reduce_scores
from fathom.engine.scoring.tokens import Role, Tokens, encode_causal

ATTEMPTS = 1000
"""Draws of a pseudoword that lies too close to another."""
ROWS = 8192
"""Embeddings held in double precision at a time."""
PLACEHOLDERS = ("X", "Q", "it", "one", "x")
"""Placeholders for pseudowords: the first that shares no token with its context is used."""
_ENDING = 3
"""Words before the answer that form a text's ending."""


def pseudowords(model: Model, count: int, alpha: float, *seed: object) -> Tensor:
    """Draw vectors at distance d from a centre c, in uniform directions, no closer than d to each other.

    For masked models c is the mask token's embedding and d = α · min‖c − z_t‖, t any other token. For causal models c
    is the mean of all embeddings and d = α · median‖c − z_t‖, t any token.

    :param alpha: between 0 and 1.
    :param seed: anything that has a text.
    :returns: float32, shape (count, d), on the CPU; the model does not change.
    :raises BadInput: a token has the mask token's embedding, all tokens have one embedding, the pseudowords do not fit
        around the centre, or the model takes no vectors.
    """
    model.require_vectors()
    is_causal = model.attention is Attention.CAUSAL
    centre, distance = (_around_the_mean if is_causal else _around_the_mask)(model, alpha)
    generator = torch.Generator().manual_seed(zlib.crc32("|".join(map(str, seed)).encode()))
    words: list[Tensor] = []
    for _ in range(count * ATTEMPTS):
        if len(words) == count:
            break
        direction = torch.randn(len(centre), generator=generator, dtype=torch.float64)
        drawn = (centre + distance * direction / direction.norm()).float()
        if all((drawn.double() - word.double()).norm() >= distance for word in words):
            words.append(drawn)
    if len(words) < count:
        raise BadInput(
            f"{count} pseudowords do not fit around the {'mean embedding' if is_causal else 'mask token'} of "
            f"'{model.identity.name}', whose embeddings have {len(centre)} numbers: use fewer --pairs"
        )
    return torch.stack(words)


def _around_the_mean(model: Model, alpha: float) -> tuple[Tensor, float]:
    """Return the mean of the tokenizer's embeddings, float64, and the distance to keep from it."""
    count = min(len(model.tokenizer), model.vocabulary_size)
    with torch.no_grad():
        parts = [torch.arange(start, min(start + ROWS, count), device=model.device) for start in range(0, count, ROWS)]
        mean = torch.stack([model.embed(part).double().sum(0).cpu() for part in parts]).sum(0) / count
        distances = torch.cat([(model.embed(part).double().cpu() - mean).norm(dim=1) for part in parts])
    middle = float(distances.median())
    if middle == 0:
        raise BadInput(
            f"the tokens of '{model.identity.name}' have one embedding, so that there is no room for pseudowords: use "
            "another model"
        )
    return mean, alpha * middle


def _around_the_mask(model: Model, alpha: float) -> tuple[Tensor, float]:
    """Return the mask token's embedding, float64, and the distance to keep from it; tokens are the tokenizer's."""
    mask_id = model.tokenizer.mask_token_id
    count = min(len(model.tokenizer), model.vocabulary_size)
    with torch.no_grad():
        embeddings = model.embed(torch.arange(count, device=model.device)).double().cpu()
    distances = (embeddings - embeddings[mask_id]).norm(dim=1)
    distances[mask_id] = torch.inf
    nearest = int(distances.argmin())
    if distances[nearest] == 0:
        token = model.tokenizer.convert_ids_to_tokens(nearest)
        raise BadInput(
            f"the token {token!r} of '{model.identity.name}' has the embedding of its mask token, so that there is no "
            "room for pseudowords: use another model"
        )
    return embeddings[mask_id], alpha * float(distances[nearest])


class PseudowordText(NamedTuple):
    """A text with each candidate in it. Ids beyond the vocabulary are rows of pseudowords.

    :param before: ids up to the answer.
    :param rest: ids of each candidate and of all that follows it.
    :param answers: number of tokens of each candidate.
    """

    before: tuple[int, ...]
    rest: tuple[tuple[int, ...], ...]
    answers: tuple[int, ...]

    @property
    def longest(self) -> int:
        return len(self.before) + max(map(len, self.rest))


class _Statement(NamedTuple):
    ids: tuple[int, ...]
    start: int
    answer: int


class PseudowordEncoder:
    """Encodes texts with ``[Y]`` and pseudowords, ``<s1>``, ``<s2>``, … in them.

    :param bos: first token, None for none.
    :param first: the id of ``<s1>``: the size of the vocabulary.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, bos: int | None, first: int) -> None:
        self.tokenizer, self.bos, self.first = tokenizer, bos, first
        self._known: dict[tuple[str, str, Sequence[str]], list[_Statement] | None] = {}

    def encode(self, text: str, names: Sequence[str]) -> PseudowordText:
        """:raises BadInput: no placeholder has its own tokens in this tokenizer."""
        before, _, after = text.partition(ANSWER)
        ending = " ".join(before.split(" ")[-_ENDING - 1 :])  # the last is "": a space precedes the answer
        ends = self._endings(ending, after, names)
        [first] = self._encode([(before, names[0], after)])
        if ends is None or first.ids[first.start :] != ends[0].ids[ends[0].start :]:
            return _by_shared_prefix(self._encode([(before, name, after) for name in names]))
        rest = tuple(statement.ids[statement.start :] for statement in ends)
        return PseudowordText(first.ids[: first.start], rest, tuple(statement.answer for statement in ends))

    def _endings(self, ending: str, after: str, names: Sequence[str]) -> list[_Statement] | None:
        """Return None if the tokens before the answer depend on it."""
        key = (ending, after, names)
        if key not in self._known:
            statements = self._encode([(ending, name, after) for name in names])
            alike = len({statement.ids[: statement.start] for statement in statements}) == 1
            self._known[key] = statements if alike else None
        return self._known[key]

    def _encode(self, parts: Sequence[tuple[str, str, str]]) -> list[_Statement]:
        """:param parts: the text before the answer, the answer, and the text after it, for each statement."""
        for placeholder in PLACEHOLDERS:
            filled = [_with_placeholders(placeholder, *part) for part in parts]
            tokens = encode_causal(self.tokenizer, [prompt for prompt, _ in filled], self.bos)
            statements = [self._replace(text, rows) for text, (_, rows) in zip(tokens, filled, strict=True)]
            whole = [statement for statement in statements if statement is not None]
            if len(whole) == len(statements):
                return whole
        raise BadInput(
            f"the tokenizer has no tokens of its own for any of {', '.join(PLACEHOLDERS)} in {''.join(parts[0])!r}: "
            "pseudowords cannot be put in their place"
        )

    def _replace(self, tokens: Tokens, rows: Sequence[int]) -> _Statement | None:
        """Put pseudowords in place of placeholders; None if they share tokens with their context."""
        ids: list[int] = []
        left, inside, start = list(rows), False, 0
        for id_, role in zip(tokens.ids.tolist(), tokens.roles.tolist(), strict=True):
            if role == Role.SUBJECT and not start:
                start = len(ids)
            if role != Role.ANSWER:
                ids.append(id_)
            elif not inside:
                if not left:
                    return None
                ids.append(self.first + left.pop(0) - 1)
            inside = role == Role.ANSWER
        answer = int((tokens.roles == Role.SUBJECT).sum())
        return None if left or tokens.mixed or not answer else _Statement(tuple(ids), start, answer)


def _by_shared_prefix(statements: Sequence[_Statement]) -> PseudowordText:
    """Split statements that may differ before their answers after their shared prefix."""
    start = min(statement.start for statement in statements)
    places = zip(*(statement.ids[:start] for statement in statements), strict=True)
    shared = next((place for place, ids in enumerate(places) if len(set(ids)) > 1), start)
    rest = tuple(statement.ids[shared:] for statement in statements)
    return PseudowordText(statements[0].ids[:shared], rest, tuple(statement.answer for statement in statements))


def _with_placeholders(placeholder: str, before: str, name: str, after: str) -> tuple[Prompt, list[int]]:
    """Return the text with placeholders, and the rows they represent, from 1, in their order."""
    text, places, rows = "", [], []
    for part, is_name in ((before, False), (name, True), (after, False)):
        if is_name:
            subject = Span(_with_space(text), len(text) + len(part))
            text += part
            continue
        end = 0
        for match in LEARNT.finditer(part):
            text += part[end : match.start()]
            places.append(Span(_with_space(text), len(text) + len(placeholder)))
            rows.append(int(match[1]))
            text, end = text + placeholder, match.end()
        text += part[end:]
    return Prompt(text, (subject,), tuple(places)), rows


def _with_space(text: str) -> int:
    """Return the start of what is appended to *text*, including a space before it, which may be part of a token."""
    return len(text) - text.endswith(" ")


def pseudoword_scores(
    model: Model, texts: Sequence[PseudowordText], budget: Budget, vectors: Tensor
) -> list[NDArray[np.float64]]:
    """Score each candidate in each text, in nats.

    :param vectors: of the pseudowords, shape (rows, d).
    :returns: for each text shape (candidates,).
    """
    sequences = [(*text.before, *rest) for text in texts for rest in text.rest]
    log_probs = iter(causal_log_probs(model, sequences, budget, vectors))

    def score(start: int, rest: Sequence[int]) -> float:
        return reduce_scores(next(log_probs)[start:], np.array(rest) < model.vocabulary_size, Reduction.SUM)

    return [np.array([score(len(text.before), rest) for rest in text.rest]) for text in texts]


def count_scored(model: Model, text: PseudowordText) -> list[int]:
    return [sum(id_ < model.vocabulary_size for id_ in rest) for rest in text.rest]
