"""Where the right answers stand among all candidates, ties included, and the one place where that becomes a prediction
row (columns and their meaning: :mod:`fathom.store.predictions`)."""

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
"""Some columns of a prediction, by name; those left out are null."""


class Ranks(NamedTuple):
    """Rank of the best right answer, 1-based, other right answers taken out.

    :param optimistic: ties below it.
    :param pessimistic: ties above it.
    """

    optimistic: int
    pessimistic: int

    @classmethod
    def below(cls, above: int, level: int) -> Ranks:
        """The rank below *above* better rivals and beside *level* equal ones."""
        return cls(above + 1, above + 1 + level)

    @property
    def realistic(self) -> float:
        """The mean of the two: the rank expected when ties are put in random order."""
        return (self.optimistic + self.pessimistic) / 2


@dataclass
class Found:
    """Where the gold answers of one query stand among its candidates.

    :param ranks: of its best gold answer, known ones taken out; None where no gold answer has a score.
    :param gold_scores: in gold order, NaN where there is none.
    :param gold_ranks: realistic, among all candidates, in gold order; none where they are not known.
    :param top: places of the best candidates and their scores, best first.
    :param scores: of all candidates, where asked for.
    :param above: the rank is greater than this: the search stopped there.
    :param unscored: why there is no rank.
    """

    ranks: Ranks | None
    gold_scores: list[float]
    gold_ranks: list[float]
    top: list[tuple[int, float]]
    scores: NDArray[np.floating[Any]] | None = field(default=None, repr=False)
    above: int | None = None
    unscored: str | None = None


def rank_best(scores: NDArray[np.float64], gold: Sequence[int], known: Sequence[int] = ()) -> Ranks:
    """The rank of the best right answer, the others left out.

    :param scores: higher is better, shape (candidates,).
    :param gold: places of the right answers.
    :param known: places to leave out of the ranking.
    """
    rivals = np.ones(len(scores), dtype=bool)
    rivals[list(gold)] = rivals[list(known)] = False
    return ranks_among(scores[rivals], scores[list(gold)].max())


def ranks_among(rivals: NDArray[np.float64], score: float) -> Ranks:
    """The rank of a *score* among those of its rivals, shape (rivals,)."""
    return Ranks.below(int((rivals > score).sum()), int((rivals == score).sum()))


def unfiltered_ranks(scores: NDArray[np.float64], places: Sequence[int]) -> list[float]:
    """Realistic rank of each place among all candidates."""
    return [float((scores > scores[place]).sum() + 1 + (scores >= scores[place]).sum()) / 2 for place in places]


def top(scores: NDArray[np.float64], ids: Sequence[str], count: int) -> list[int]:
    """Places of the *count* best candidates; equal scores by id, so that the order of candidates decides nothing."""
    places = list(range(len(ids)))
    if len(ids) > count > 0:  # the others need not be sorted
        places = np.flatnonzero(scores >= np.partition(scores, -count)[-count]).tolist()
    return sorted(places, key=lambda place: (-scores[place], ids[place]))[:count]


class Asked(NamedTuple):
    """A query as it was asked once: what its rows have in common, one for each scoring.

    :param template: which one, :data:`~fathom.store.predictions.NO_TEMPLATE` for none.
    :param prompt: the text asked, ``[Y]`` at the answer's place; None where the query could not be put into words.
    :param num_candidates: how many are ranked; None where there are none.
    :param not_ranked: :func:`digest` of the candidates that cannot be; None where all are.
    :param likelihood: of the prompt with its (first) gold answer, in nats, and of how many tokens; None where that was
        not asked for.
    """

    query: Query
    template: int
    prompt: str | None
    num_candidates: int | None = None
    likelihood: tuple[float, int] | None = None
    not_ranked: str | None = None

    def rows(self, scorings: Sequence[Scoring], answers: Sequence[Columns] | str) -> list[Columns]:
        """A prediction for each scoring.

        :param answers: what came of each, as this module makes it; or the reason why there is nothing.
        """
        own = [unscored(answers)] * len(scorings) if isinstance(answers, str) else answers
        return [self._row(scoring.name, answer) for scoring, answer in zip(scorings, own, strict=True)]

    def _row(self, scoring: str, answer: Columns) -> Columns:
        about: Columns = {
            "query_id": self.query.id,
            "template": self.template,
            "scoring": scoring,
            "subject": self.query.subject,
            "prompt": self.prompt,
            "num_candidates": self.num_candidates,
            "not_ranked": self.not_ranked,
        }
        if self.likelihood is not None:
            about["prompt_log_prob"], about["prompt_tokens"] = self.likelihood
        return about | answer


def digest(ids: Iterable[str]) -> str | None:
    """Of candidates, whatever their order; None of none."""
    told = "\n".join(sorted(ids))
    return hashlib.sha256(told.encode()).hexdigest()[:16] if told else None


def digest_of_others(space: CandidateSet, ranked: NDArray[np.bool_]) -> str | None:
    """:func:`digest` of the candidates that are not *ranked*, shape (candidates,)."""
    return digest(space.ids[place] for place in np.flatnonzero(~ranked).tolist())


def unscored(reason: str) -> Columns:
    """Of a query that has no answer."""
    return {"unscored": reason}


def of_found(found: Found, space: CandidateSet) -> Columns:
    """The columns that say where the gold answers were found among the candidates of *space*."""
    row: Columns = {
        "gold_scores": found.gold_scores or None,
        "gold_ranks": found.gold_ranks or None,
        "top_ids": [space.ids[place] for place, _ in found.top],
        "top_scores": [score for _, score in found.top],
        "scores": None if found.scores is None else found.scores.tolist(),
        "rank_above": found.above,
        "unscored": found.unscored,
    }
    if found.ranks is not None:
        row |= {
            "rank": found.ranks.realistic,
            "rank_optimistic": found.ranks.optimistic,
            "rank_pessimistic": found.ranks.pessimistic,
        }
    return row


def of_scores(
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
    """The columns of a query whose candidates were all scored.

    :param scores: shape (candidates,); NaN for those that are not *ranked*.
    :param gold_tokens: how many tokens each gold answer has.
    :param scored_tokens: how many tokens the score of each candidate is made of, shape (candidates,).
    :param mixed_tokens: how many of these reach across the answer's border, shape (candidates,); None where unknown.
    :param top_k: how many of the best to list.
    :param ranked: which candidates are, one gold answer among them, shape (candidates,); None for all.
    :param max_rank: a greater rank is only known to be greater, and no scores are kept.
    :param fault: why there are scores that are not numbers, where that is known.
    :param what: what has a score, for the reason where nothing else is known.
    """
    keep, gold = len(space) <= KEEP_SCORES_UP_TO, space.places(query.gold)
    row: Columns = {"gold_scores": scores[gold].astype(np.float64).tolist(), "gold_tokens": list(gold_tokens)}
    finite = np.isfinite(scores if ranked is None else scores[ranked])
    if wrong := int((~finite).sum()):
        if keep and ranked is None:
            row["scores"] = scores.tolist()
        return row | unscored(fault or f"the model gave {wrong} of {len(finite)} {what} a score that is not a number")
    values = (scores if ranked is None else np.where(ranked, scores, -np.inf)).astype(np.float64)
    found = _ranked(query, space, values, top_k, max_rank)
    found.gold_scores = row["gold_scores"]
    if keep and max_rank is None:
        found.scores = values
    best = max(gold, key=lambda place: values[place])
    tokens: Columns = {"scored_tokens": int(scored_tokens[best])}
    if mixed_tokens is not None:
        tokens["mixed_tokens"] = mixed_tokens[best]
    return row | of_found(found, space) | tokens


def _ranked(query: Query, space: CandidateSet, values: NDArray[np.float64], top_k: int, max_rank: int | None) -> Found:
    """:param values: of the candidates, −inf for those that are not ranked, shape (candidates,)."""
    gold = [place for place in space.places(query.gold) if values[place] > -np.inf]
    ranks, each = rank_best(values, gold, space.places(query.known)), unfiltered_ranks(values, gold)
    rank_of = dict(zip(gold, each, strict=True))
    found = Found(
        ranks,
        [],
        [rank_of.get(place, float("nan")) for place in space.places(query.gold)],
        [(place, float(values[place])) for place in top(values, space.ids, top_k) if values[place] > -np.inf],
    )
    if max_rank is not None and ranks.optimistic > max_rank:
        found.ranks, found.above = None, max_rank
    return found
