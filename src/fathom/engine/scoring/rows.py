"""Ranks of the gold answers among all candidates, including ties, and the construction of prediction rows.

Columns and their meaning: :mod:`fathom.store.predictions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query
from fathom.store.predictions import KEEP_SCORES_UP_TO, Scoring

Columns = dict[str, Any]
"""Some columns of a prediction, by name; missing ones are null."""


class Ranks(NamedTuple):
    """Rank of the best gold answer, 1-based, other right answers filtered.

    :param optimistic: ties rank below it.
    :param pessimistic: ties rank above it.
    """

    optimistic: int
    pessimistic: int

    @classmethod
    def below(cls, above: int, level: int) -> Ranks:
        """Return the rank below *above* better rivals, with *level* equal ones."""
        return cls(above + 1, above + 1 + level)

    @property
    def realistic(self) -> float:
        """Mean of the two: the expected rank under random tie order."""
        return (self.optimistic + self.pessimistic) / 2


@dataclass
class RankResult:
    """Ranks and scores of one query.

    :param ranks: of its best gold answer, known answers filtered; None if no gold answer has a score.
    :param gold_scores: in gold order, NaN without a score.
    :param gold_ranks: realistic, among all candidates, in gold order; empty if unknown.
    :param top: places of the best candidates and their scores, best first.
    :param scores: of all candidates, if requested.
    :param above: the rank is greater than this, where the search stopped.
    :param unscored: why there is no rank.
    """

    ranks: Ranks | None
    gold_scores: list[float]
    gold_ranks: list[float]
    top: list[tuple[int, float]]
    scores: NDArray[np.floating[Any]] | None = field(default=None, repr=False)
    above: int | None = None
    unscored: str | None = None


def rank_best(scores: NDArray[np.float64], gold: Sequence[int], filtered: Sequence[int] = ()) -> Ranks:
    """Return the rank of the best gold answer, without the others.

    :param scores: higher is better, shape (candidates,).
    :param gold: places of the gold answers.
    :param filtered: places to exclude from the ranking.
    """
    rivals = np.ones(len(scores), dtype=bool)
    rivals[list(gold)] = rivals[list(filtered)] = False
    return ranks_among(scores[rivals], scores[list(gold)].max())


def ranks_among(rivals: NDArray[np.float64], score: float) -> Ranks:
    """Return the rank of a *score* among those of its rivals, shape (rivals,)."""
    return Ranks.below(int((rivals > score).sum()), int((rivals == score).sum()))


def unfiltered_ranks(scores: NDArray[np.float64], places: Sequence[int]) -> list[float]:
    """Return the realistic rank of each place among all candidates."""
    return [float((scores > scores[place]).sum() + 1 + (scores >= scores[place]).sum()) / 2 for place in places]


def top(scores: NDArray[np.float64], ids: Sequence[str], count: int) -> list[int]:
    """Return places of the *count* best candidates; equal scores by id, independent of the candidates' order."""
    places = list(range(len(ids)))
    if len(ids) > count > 0:  # the others need not be sorted
        places = np.flatnonzero(scores >= np.partition(scores, -count)[-count]).tolist()
    return sorted(places, key=lambda place: (-scores[place], ids[place]))[:count]


class PromptedQuery(NamedTuple):
    """A query in one prompt: the columns that its rows share, one row for each scoring.

    :param template: its number, :data:`~fathom.store.predictions.NO_TEMPLATE` for none.
    :param prompt: the text with ``[Y]`` at the answer's place; None if there is none.
    :param num_candidates: how many are ranked; None if there are none.
    :param not_ranked: :func:`digest` of the unranked candidates; None if all are ranked.
    :param likelihood: of the prompt with its (first) gold answer, in nats, and its number of tokens; None if not
        requested.
    """

    query: Query
    template: int
    prompt: str | None
    num_candidates: int | None = None
    likelihood: tuple[float, int] | None = None
    not_ranked: str | None = None

    def rows(self, scorings: Sequence[Scoring], answers: Sequence[Columns] | str) -> list[Columns]:
        """Return a prediction for each scoring.

        :param answers: the columns of each, by the functions of this module; or the reason why there are none.
        """
        columns = [unscored(answers)] * len(scorings) if isinstance(answers, str) else answers
        return [self._row(scoring.name, answer) for scoring, answer in zip(scorings, columns, strict=True)]

    def _row(self, scoring: str, answer: Columns) -> Columns:
        row: Columns = {
            "query_id": self.query.id,
            "template": self.template,
            "scoring": scoring,
            "subject": self.query.subject,
            "prompt": self.prompt,
            "num_candidates": self.num_candidates,
            "not_ranked": self.not_ranked,
        }
        if self.likelihood is not None:
            row["prompt_log_prob"], row["prompt_tokens"] = self.likelihood
        return row | answer


def digest(ids: Iterable[str]) -> str | None:
    """Return a digest of candidates in any order; None for none."""
    lines = "\n".join(sorted(ids))
    return hashlib.sha256(lines.encode()).hexdigest()[:16] if lines else None


def unranked_digest(space: CandidateSet, ranked: NDArray[np.bool_]) -> str | None:
    """Return :func:`digest` of the candidates that are not *ranked*, shape (candidates,)."""
    return digest(space.ids[place] for place in np.flatnonzero(~ranked).tolist())


def unscored(reason: str) -> Columns:
    return {"unscored": reason}


def result_columns(result: RankResult, space: CandidateSet) -> Columns:
    best = sorted(((space.ids[place], score) for place, score in result.top), key=lambda pair: (-pair[1], pair[0]))
    row: Columns = {
        "gold_scores": result.gold_scores or None,
        "gold_ranks": result.gold_ranks or None,
        "top_ids": [id_ for id_, _ in best],
        "top_scores": [score for _, score in best],
        "scores": None if result.scores is None else result.scores.tolist(),
        "rank_above": result.above,
        "unscored": result.unscored,
    }
    if result.ranks is not None:
        row |= {
            "rank": result.ranks.realistic,
            "rank_optimistic": result.ranks.optimistic,
            "rank_pessimistic": result.ranks.pessimistic,
        }
    return row


def score_columns(
    query: Query,
    space: CandidateSet,
    scores: NDArray[np.floating[Any]],
    gold_tokens: Sequence[int],
    scored_tokens: Sequence[int] | NDArray[np.int64],
    mixed_tokens: Sequence[int] | None = None,
    *,
    top_k: int,
    ranked: NDArray[np.bool_] | None = None,
    max_rank: int | None = None,
    fault: str | None = None,
    what: str = "candidates",
) -> Columns:
    """Return the columns of a query whose candidates were all scored.

    :param scores: shape (candidates,); NaN for those that are not *ranked*.
    :param gold_tokens: number of tokens of each gold answer.
    :param scored_tokens: number of tokens in the score of each candidate, shape (candidates,).
    :param mixed_tokens: how many of these cross the answer's border, shape (candidates,); None if unknown.
    :param top_k: length of the top list.
    :param ranked: which candidates are ranked, at least one gold answer, shape (candidates,); None for all.
    :param max_rank: a greater rank is only known to be greater, and no scores are kept.
    :param fault: why scores are not numbers, if known.
    :param what: name of what is scored, for the reason if *fault* is unknown.
    """
    keep, gold = len(space) <= KEEP_SCORES_UP_TO, space.places(query.gold)
    row: Columns = {"gold_scores": scores[gold].astype(np.float64).tolist(), "gold_tokens": list(gold_tokens)}
    finite = np.isfinite(scores if ranked is None else scores[ranked])
    if wrong := int((~finite).sum()):
        if keep and ranked is None:
            row["scores"] = scores.tolist()
        return row | unscored(fault or f"the model gave {wrong} of {len(finite)} {what} a score that is not a number")
    values = (scores if ranked is None else np.where(ranked, scores, -np.inf)).astype(np.float64)
    result = _ranked(query, space, values, top_k, max_rank)
    result.gold_scores = row["gold_scores"]
    if keep and max_rank is None:
        result.scores = values
    best = max(gold, key=lambda place: values[place])
    tokens: Columns = {"scored_tokens": int(scored_tokens[best])}
    if mixed_tokens is not None:
        tokens["mixed_tokens"] = mixed_tokens[best]
    return row | result_columns(result, space) | tokens


def _ranked(
    query: Query, space: CandidateSet, values: NDArray[np.float64], top_k: int, max_rank: int | None
) -> RankResult:
    """:param values: −inf for candidates that are not ranked, shape (candidates,)."""
    gold = [place for place in space.places(query.gold) if values[place] > -np.inf]
    ranks, each = rank_best(values, gold, space.places(query.known)), unfiltered_ranks(values, gold)
    rank_of = dict(zip(gold, each, strict=True))
    result = RankResult(
        ranks,
        [],
        [rank_of.get(place, float("nan")) for place in space.places(query.gold)],
        [(place, float(values[place])) for place in top(values, space.ids, top_k) if values[place] > -np.inf],
    )
    if max_rank is not None and ranks.optimistic > max_rank:
        result.ranks, result.above = None, max_rank
    return result
