"""Does a probe favour short names? Pearson's correlation of gold ranks and gold token lengths.

Section 5.3 and figure 9 of Jinno et al. (DEER), who found r = 0.484 for BEAR and 0.005 for DEER with OPT-1.3B.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.errors import BadInput
from fathom.metrics.correlation import Correlation, pearson
from fathom.results.facts import Facts, facts_of
from fathom.store.folder import RunFolder


class Box(NamedTuple):
    """Ranks of the facts whose answer has so many tokens."""

    tokens: int
    facts: int
    lower_quartile: float
    median: float
    upper_quartile: float


class LengthBias(NamedTuple):
    """:param ranks: correlation of rank and token length; a positive one favours short names.
    :param left_out: facts without a rank. :param points: fact id, tokens, rank."""

    name: str
    ranks: Correlation
    log_ranks: Correlation
    boxes: list[Box]
    left_out: int
    points: list[tuple[str, int, float]]


def length_bias(
    runs: Sequence[RunFolder], scoring: str | None = None, count_tokens: Callable[[list[str]], list[int]] | None = None
) -> list[LengthBias]:
    """One result per run.

    :param count_tokens: counts alike for all runs; None takes what each recorded (the statement probe counts a name
        behind a space, the others the name alone).

    :raises BadInput: a run does not say, and nothing to count with is given; its search stopped at some rank.
    """
    found = []
    for run in runs:
        facts = facts_of(run, scoring)
        if facts.stopped:
            raise BadInput(
                f"{run.path} says of {len(facts.stopped)} of {len(facts.ranked)} facts only that they rank beyond "
                "--max-rank: the correlation needs every rank, ask again without --max-rank"
            )
        tokens = _tokens(run, facts, count_tokens)
        lengths = np.array([tokens[fact] for fact in facts.ranked])
        ranks = np.array([facts.ranked[fact].rank for fact in facts.ranked])
        boxes = [_box(int(length), ranks[lengths == length]) for length in np.unique(lengths)]
        points = list(zip(facts.ranked, lengths.tolist(), ranks.tolist(), strict=True))
        found.append(
            LengthBias(
                facts.name,
                pearson(lengths, ranks),
                pearson(lengths, np.log10(ranks)),
                boxes,
                len(facts.left_out),
                points,
            )
        )
    return found


def _box(tokens: int, ranks: npt.NDArray[np.float64]) -> Box:
    lower, median, upper = np.percentile(ranks, [25, 50, 75]).tolist()
    return Box(tokens, len(ranks), lower, median, upper)


def _tokens(run: RunFolder, facts: Facts, count_tokens: Callable[[list[str]], list[int]] | None) -> dict[str, int]:
    recorded = {fact: about.gold_tokens for fact, about in facts.ranked.items()}
    if count_tokens is None and all(value is not None for value in recorded.values()):
        return {fact: int(value) for fact, value in recorded.items() if value is not None}
    if count_tokens is None:
        raise BadInput(f"{run.path} does not say how many tokens its answers have: give --tokenizer (a model's folder)")
    names = {
        (space, id_): name
        for space, (ids, all_names) in run.candidates().items()
        for id_, name in zip(ids, all_names, strict=True)
    }
    gold = {
        fact: names[row["candidates"], row["gold"][0]]
        for row in run.queries().to_pylist()
        if (fact := row["fact_id"] or row["query_id"]) in recorded
    }
    counted = count_tokens([gold[fact] for fact in recorded])
    return dict(zip(recorded, counted, strict=True))
