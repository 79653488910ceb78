"""By what predictions are counted: their classes, what each of them weighs, and the kinds of facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fathom.report.evidence import Array, Evidence, Predictions, narrow
from fathom.results.rows import NONE, Floats, Ints

RANKS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Last rank of each class but one, which has all further ones."""
TENTHS = 10
LENGTHS = 8
"""Answers of so many tokens and more are one class."""


class Dimension(NamedTuple):
    """What predictions are counted by.

    :param labels: of its classes, in order. :param codes: class of each prediction, −1 for none, [n].
    """

    labels: Sequence[str]
    codes: Array


def dimensions(evidence: Evidence, found: Predictions) -> Mapping[str, Dimension]:
    """All by name: run, relation, template, rank, confidence, length, score."""
    texts = evidence.pool.texts
    named = sorted(set(evidence.relation), key=texts.__getitem__)
    place = {number: at for at, number in enumerate(named)}
    of_fact = narrow(np.array([place[number] for number in evidence.relation], dtype=np.int64))
    templates = np.unique(found.template).tolist()
    lengths = np.minimum(found.length, LENGTHS).astype(np.int8) - np.int8(1)  # 0 tokens are no class
    return {
        "run": Dimension([view.name for view in evidence.views], found.view),
        "relation": Dimension([texts[number] for number in named], of_fact[found.fact]),
        "template": Dimension(
            [str(own) if own >= 0 else NONE for own in templates],
            _coded(found, lambda own: np.searchsorted(templates, own.template)),
        ),
        "rank": Dimension(_rank_labels(), _coded(found, lambda own: _rank_codes(own.rank))),
        "confidence": Dimension(
            [f"{at * 10}–{at * 10 + 10} %" for at in range(TENTHS)],
            _coded(found, lambda own: _tenths(own.confidence)),
        ),
        "score": _scores(found),
        "length": Dimension([*map(str, range(1, LENGTHS)), f"{LENGTHS}+"], lengths),
    }


def _coded(found: Predictions, codes: Callable[[Predictions], Array]) -> Array:
    """Made of one view after the other, since what it takes on the way is larger than what it gives; so below."""
    return np.concatenate([narrow(codes(own)) for own in found.each_view()])


def _scores(found: Predictions) -> Dimension:
    """Of best answers whose scores are no probabilities, such as cosines: ten classes of equal width."""
    told = found.score[~np.isnan(found.score)].astype(np.float64)
    if not told.size:
        return Dimension([], np.full(len(found.score), -1, dtype=np.int8))
    edges = np.linspace(told.min(), told.max(), TENTHS + 1)

    def codes(own: Predictions) -> Array:
        within = np.clip(np.searchsorted(edges, own.score, side="right") - 1, 0, TENTHS - 1)
        return np.where(np.isnan(own.score), -1, within)

    return Dimension([f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)], _coded(found, codes))


def _rank_labels() -> list[str]:
    edges = [*RANKS, None]
    ends = zip([0, *RANKS], edges, strict=True)
    return [f">{low}" if high is None else str(high) if low + 1 == high else f"{low + 1}–{high}" for low, high in ends]


def _rank_codes(rank: Floats) -> Ints:
    """A rank beyond k is in the class of k + 1."""
    told = np.where(rank < 0, 1 - rank, rank)
    return np.where(np.isnan(told), -1, np.searchsorted(np.array(RANKS, float), told, side="left"))


def _tenths(confidence: Floats) -> Ints:
    """As the calibration error has them: (low, high], and 0 in the first."""
    place = np.maximum(np.searchsorted(np.arange(TENTHS + 1) / TENTHS, confidence, side="left") - 1, 0)
    return np.where(np.isnan(confidence), -1, np.minimum(place, TENTHS - 1))


def weights(found: Predictions) -> Floats:
    """1 / number of predictions that a view has of the fact, so that it counts once, whatever its templates; 0 where
    one of them is unscored, as in every comparison; [n]."""
    return np.concatenate([_weights(own) for own in found.each_view()])


def _weights(of_view: Predictions) -> Floats:
    counts = np.bincount(of_view.fact)
    whole = np.bincount(of_view.fact, ~np.isnan(of_view.hit)) == counts
    return np.where(whole, 1 / np.maximum(counts, 1), 0.0)[of_view.fact]


def weights_alone(found: Predictions) -> Floats:
    """The same among the predictions of one template; [n]."""
    return np.concatenate([_weights_alone(own) for own in found.each_view()])


def _weights_alone(of_view: Predictions) -> Floats:
    key = of_view.template.astype(np.int64) * (int(of_view.fact.max(initial=0)) + 1) + of_view.fact
    _, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.where(_weights(of_view) > 0, (1 / counts)[place], 0.0)


def hits_of(found: Predictions, views: int, facts: int) -> Floats:
    """Mean hit of each fact in each view, NaN where nothing was scored; [views, facts]."""
    hits = np.full((views, facts), np.nan)
    for own in found.each_view():
        weight = _weights(own)
        total, sums = (np.bincount(own.fact, each, facts) for each in (weight, weight * np.nan_to_num(own.hit)))
        hits[own.view[0]] = np.where(total > 0, sums / np.maximum(total, 1e-300), np.nan)
    return hits


class Kinds(NamedTuple):
    """Parts of the facts that a reader may choose, besides relations.

    :param labels: such as "cardinality: 1:1". :param of_facts: numbers of those that each fact is in.
    """

    labels: list[str]
    of_facts: list[list[int]]


def kinds_of(evidence: Evidence, found: Predictions) -> Kinds:
    """The groups of the queries, and what all runs scored, all or none has right, or some run left unscored."""
    labels: dict[str, int] = {}
    of_facts: list[list[int]] = [[] for _ in evidence.facts]
    texts = evidence.pool.texts
    for key in evidence.keys:
        for fact, groups in enumerate(evidence.groups):
            values = filter(None, map(str.strip, texts[groups.get(key, 0)].split(";")))
            for value in dict.fromkeys(values) or (NONE,):
                of_facts[fact].append(labels.setdefault(f"{key}: {value}", len(labels)))
    hits = hits_of(found, len(evidence.views), len(evidence.facts))
    told = ~np.isnan(hits).any(axis=0)
    unscored = np.isin(np.arange(len(evidence.facts)), found.fact[found.reason > 0])
    for label, own in (
        ("scored by all runs", told),
        ("right by all runs", told & (hits == 1).all(axis=0)),
        ("right by no run", told & (hits == 0).all(axis=0)),
        ("a prediction unscored", unscored),
    ):
        for fact in np.flatnonzero(own).tolist():
            of_facts[fact].append(labels.setdefault(label, len(labels)))
    return Kinds(list(labels), of_facts)
