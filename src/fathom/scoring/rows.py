"""The one place where prediction rows are made (columns and their meaning: :mod:`fathom.store.predictions`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import CandidateSet, Query
from fathom.scoring.ranks import Found, rank_best, top, unfiltered_ranks
from fathom.store.predictions import KEEP_SCORES_UP_TO

Columns = dict[str, Any]
"""Some columns of a prediction, by name; those left out are null."""


class Asked(NamedTuple):
    """A query as it was asked once: what its rows have in common, one for each scoring.

    :param template: which one, :data:`~fathom.store.predictions.NO_TEMPLATE` for none.
    :param prompt: the text asked, ``[Y]`` at the answer's place; None where the query could not be put into words.
    :param num_candidates: how many are ranked; None where there are none.
    :param likelihood: of the prompt with its (first) gold answer, in nats, and of how many tokens; None where that was
        not asked for.
    """

    query: Query
    template: int
    prompt: str | None
    num_candidates: int | None = None
    likelihood: tuple[float, int] | None = None

    def row(self, scoring: str, answer: Columns) -> Columns:
        """The prediction of one scoring. :param answer: what came of it, from this module or with a reason."""
        about: Columns = {
            "query_id": self.query.id,
            "template": self.template,
            "scoring": scoring,
            "subject": self.query.subject,
            "prompt": self.prompt,
            "num_candidates": self.num_candidates,
        }
        if self.likelihood is not None:
            about["prompt_log_prob"], about["prompt_tokens"] = self.likelihood
        return about | answer


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
    own = [place for place in gold if values[place] > -np.inf]
    ranks, each = rank_best(values, own, space.places(query.known)), unfiltered_ranks(values, own)
    rank_of = dict(zip(own, each, strict=True))
    beyond = max_rank is not None and ranks.optimistic > max_rank
    found = Found(
        None if beyond else ranks,
        row["gold_scores"],
        [rank_of.get(place, float("nan")) for place in gold],
        [(place, float(values[place])) for place in top(values, space.ids, top_k) if values[place] > -np.inf],
        values if keep and max_rank is None else None,
        max_rank if beyond else None,
    )
    best = max(own, key=lambda place: values[place])
    tokens: Columns = {"scored_tokens": int(scored_tokens[best])}
    if mixed_tokens is not None:
        tokens["mixed_tokens"] = mixed_tokens[best]
    return row | of_found(found, space) | tokens
