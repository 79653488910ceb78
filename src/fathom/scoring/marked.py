"""Statements about pseudowords for causal models: "<s1> is a particular [Y] .", one for each candidate.

A statement is tokenised as a whole, a short word standing in for each pseudoword, whose tokens then become the
pseudoword's row. What follows a text's last words is the same for all texts that end alike, so that the candidates are
tokenised once for each such ending; where a tokenizer joins words, every statement is tokenised by itself.

A statement's score is the sum of the log-probabilities of the answer's tokens, with the space before it, and of all
that follow, given what stands before. It ranks as the log-likelihood of the whole statement does. A pseudoword behind
the answer is seen, but no model can say it: it is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from fathom.data.templates import ANSWER, Prompt, Span
from fathom.errors import BadInput
from fathom.models.base import Model
from fathom.scoring.causal import causal_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.slots import LEARNT
from fathom.scoring.statements import Reduction, reduce_scores
from fathom.scoring.tokens import Role, Tokens, encode_causal

STAND_INS = ("X", "Q", "it", "one", "x")
"""Words that may stand in for a pseudoword: the first that shares no token with what stands around it."""
_ENDING = 3
"""Words before the answer that a text's ending has."""


class Marked(NamedTuple):
    """A text with every candidate in it.

    :param before: ids up to the answer; from the vocabulary's size on they are rows of pseudowords.
    :param behind: of each candidate its ids and all that follow.
    :param answers: how many tokens each candidate has.
    """

    before: tuple[int, ...]
    behind: tuple[tuple[int, ...], ...]
    answers: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Tokens of the longest statement."""
        return len(self.before) + max(map(len, self.behind))


class _Statement(NamedTuple):
    ids: tuple[int, ...]
    start: int
    answer: int


class MarkedTexts:
    """Makes statements of texts with ``[Y]`` and pseudowords, ``<s1>``, ``<s2>``, … in them.

    :param bos: what the model is shown first, None for nothing.
    :param first: the id of ``<s1>``: the size of the vocabulary.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, bos: int | None, first: int) -> None:
        self.tokenizer, self.bos, self.first = tokenizer, bos, first
        self._known: dict[tuple[str, str, Sequence[str]], list[_Statement] | None] = {}

    def of(self, text: str, names: Sequence[str]) -> Marked:
        """:raises BadInput: no stand-in has tokens of its own in this tokenizer."""
        before, _, after = text.partition(ANSWER)
        ending = " ".join(before.split(" ")[-_ENDING - 1 :])  # the last is "": a space stands before the answer
        ends = self._endings(ending, after, names)
        [first] = self._encoded([(before, names[0], after)])
        if ends is None or first.ids[first.start :] != ends[0].ids[ends[0].start :]:
            return _by_beginning(self._encoded([(before, name, after) for name in names]))
        behind = tuple(one.ids[one.start :] for one in ends)
        return Marked(first.ids[: first.start], behind, tuple(one.answer for one in ends))

    def _endings(self, ending: str, after: str, names: Sequence[str]) -> list[_Statement] | None:
        """None where what stands before the answer has other tokens before another answer."""
        key = (ending, after, names)
        if key not in self._known:
            found = self._encoded([(ending, name, after) for name in names])
            alike = len({one.ids[: one.start] for one in found}) == 1
            self._known[key] = found if alike else None
        return self._known[key]

    def _encoded(self, parts: Sequence[tuple[str, str, str]]) -> list[_Statement]:
        """:param parts: of each statement what stands before the answer, the answer, and what follows it."""
        for stand_in in STAND_INS:
            shown = [_with_stand_ins(stand_in, *one) for one in parts]
            tokens = encode_causal(self.tokenizer, [prompt for prompt, _ in shown], self.bos)
            found = [self._rows_in(one, rows) for one, (_, rows) in zip(tokens, shown, strict=True)]
            whole = [one for one in found if one is not None]
            if len(whole) == len(found):
                return whole
        raise BadInput(
            f"the tokenizer has no tokens of its own for any of {', '.join(STAND_INS)} in {''.join(parts[0])!r}: "
            "pseudowords cannot be put in their place"
        )

    def _rows_in(self, tokens: Tokens, rows: Sequence[int]) -> _Statement | None:
        """A statement with its pseudowords; None where their tokens are not theirs alone.

        :param tokens: the stand-ins' have the role of answers, and the answer's that of subjects.
        """
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


def _by_beginning(statements: Sequence[_Statement]) -> Marked:
    """Of statements that may differ before their answers: what they have in common is before, the rest behind."""
    start = min(one.start for one in statements)
    places = zip(*(one.ids[:start] for one in statements), strict=True)
    common = sum(1 for _ in takewhile(lambda ids: len(set(ids)) == 1, places))
    behind = tuple(one.ids[common:] for one in statements)
    return Marked(statements[0].ids[:common], behind, tuple(one.answer for one in statements))


def _with_stand_ins(stand_in: str, before: str, name: str, after: str) -> tuple[Prompt, list[int]]:
    """The text with stand-ins, whose places count as answers and the answer's as subject; and the rows they stand for,
    from 1, in their order."""
    text, places, rows = "", [], []
    for part, is_name in ((before, False), (name, True), (after, False)):
        if is_name:
            subject = Span(_with_space(text), len(text) + len(part))
            text += part
            continue
        end = 0
        for match in LEARNT.finditer(part):
            text += part[end : match.start()]
            places.append(Span(_with_space(text), len(text) + len(stand_in)))
            rows.append(int(match[1]))
            text, end = text + stand_in, match.end()
        text += part[end:]
    return Prompt(text, (subject,), tuple(places)), rows


def _with_space(text: str) -> int:
    """Where what is put behind *text* begins, the space before it being its own: some tokenizers make it a token."""
    return len(text) - text.endswith(" ")


def marked_scores(model: Model, texts: Sequence[Marked], budget: Budget, vectors: Tensor) -> list[NDArray[np.float64]]:
    """Of each text the score of every candidate, in nats.

    :param vectors: of the pseudowords, shape (rows, d).
    :returns: of each text shape (candidates,).
    """
    sequences = [(*text.before, *behind) for text in texts for behind in text.behind]
    found = iter(causal_log_probs(model, sequences, budget, vectors))
    return [
        np.array([_summed(model, len(text.before), behind, next(found)) for behind in text.behind]) for text in texts
    ]


def _summed(model: Model, start: int, behind: Sequence[int], log_probs: NDArray[np.float32]) -> float:
    return reduce_scores(log_probs[start:], np.array(behind) < model.vocabulary_size, Reduction.SUM)


def counted_tokens_of(model: Model, text: Marked) -> list[int]:
    """How many tokens the score of each candidate is made of."""
    return [sum(id_ < model.vocabulary_size for id_ in behind) for behind in text.behind]
