"""Classes by which predictions are counted, their weights, and kinds of facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fathom.results.rows import NONE, Floats, Ints
from fathom.studies.report.evidence import CAPITAL, SUBJECT, Array, Evidence, PredictionColumns, narrow

RANKS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Last rank of each class but the last, which is open."""
TENTHS = 10
LENGTHS = 8
"""Answers of so many tokens and more are one class."""
LONGEST = 60
"""Longest text of a template in a label."""
OPPOSITES = {"planted": "withheld"}


class Dimension(NamedTuple):
    """:param labels: of the classes, in order. :param codes: class of each prediction, −1 for none, shape (n)."""

    labels: Sequence[str]
    codes: Array


def dimensions(evidence: Evidence, predictions: PredictionColumns) -> Mapping[str, Dimension]:
    """Return the dimensions run, relation, template, rank, confidence, score and length."""
    texts = evidence.pool.texts
    named = sorted(set(evidence.relation), key=texts.__getitem__)
    place = {number: at for at, number in enumerate(named)}
    of_fact = narrow(np.array([place[number] for number in evidence.relation], dtype=np.int64))
    templates = np.unique(predictions.template).tolist()
    lengths = np.minimum(predictions.length, LENGTHS).astype(np.int8) - np.int8(1)  # 0 tokens are no class

    def coded(codes: Callable[[PredictionColumns], Array]) -> Array:
        """Code one view after the other: intermediate values take more memory than the result."""
        return np.concatenate([narrow(codes(view)) for view in predictions.each_view()])

    rank_labels = [str(high) if high - low == 1 else f"{low + 1}–{high}" for low, high in pairwise([0, *RANKS])]
    edges = _edges(predictions.score)
    wordings = [_wording(number, predictions, texts) for number in templates]
    return {
        "run": Dimension([view.name for view in evidence.views], predictions.view),
        "relation": Dimension([texts[number] for number in named], of_fact[predictions.fact]),
        "template": Dimension(
            wordings,
            coded(lambda view: np.searchsorted(templates, view.template)),
        ),
        "rank": Dimension([*rank_labels, f">{RANKS[-1]}"], coded(lambda view: _rank_codes(view.rank))),
        "confidence": Dimension(
            [f"{at * 10}–{at * 10 + 10} %" for at in range(TENTHS)], coded(lambda view: _tenths(view.confidence))
        ),
        "score": Dimension(
            [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)],
            coded(lambda view: _score_codes(view.score, edges)),
        ),
        "length": Dimension([*map(str, range(1, LENGTHS)), f"{LENGTHS}+"], lengths),
    }


def _wording(template: int, predictions: PredictionColumns, texts: Sequence[str]) -> str:
    """Return the number of a template, with its text if all relations share it."""
    if template < 0:
        return NONE
    prompts = np.unique(predictions.prompt[predictions.template == template]).tolist()
    patterns = list(dict.fromkeys(pattern_text(texts[prompt]) for prompt in prompts))
    if len(patterns) > 1:
        return f"template {template}"
    return f"{template}: {patterns[0] if len(patterns[0]) <= LONGEST else f'{patterns[0][:LONGEST]}…'}"


def pattern_text(pattern: str) -> str:
    """Return the last line of a prompt's pattern, its subject written "[X]"."""
    return pattern.replace(SUBJECT, "[X]").replace(CAPITAL, "[X]").strip().rpartition("\n")[2]


def _edges(scores: Array) -> list[float]:
    """Return the edges of ten classes of equal width; none without scores."""
    known = scores[~np.isnan(scores)].astype(np.float64)
    return np.linspace(known.min(), known.max(), TENTHS + 1).tolist() if known.size else []


def _score_codes(scores: Array, edges: Sequence[float]) -> Ints:
    within = np.clip(np.searchsorted(edges, scores, side="right") - 1, 0, TENTHS - 1)
    return np.where(np.isnan(scores), -1, within)


def _rank_codes(rank: Floats) -> Ints:
    """A rank beyond k is in the class of k + 1."""
    least = np.where(rank < 0, 1 - rank, rank)
    return np.where(np.isnan(least), -1, np.searchsorted(np.array(RANKS, float), least, side="left"))


def _tenths(confidence: Floats) -> Ints:
    """Code as the calibration error does: (low, high], and 0 in the first."""
    place = np.maximum(np.searchsorted(np.arange(TENTHS + 1) / TENTHS, confidence, side="left") - 1, 0)
    return np.where(np.isnan(confidence), -1, np.minimum(place, TENTHS - 1))


def weights(predictions: PredictionColumns) -> Floats:
    """Return 1 / number of predictions of the fact in the view, so that it counts once; 0 if one is unscored."""
    return np.where(predictions.times > 0, 1 / np.maximum(predictions.times, 1), 0.0)


def weights_by_template(view: PredictionColumns) -> Floats:
    """Return the same among the predictions of one template. :param view: predictions of one view."""
    key = view.template.astype(np.int64) * (int(view.fact.max(initial=0)) + 1) + view.fact
    _, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.where(view.times > 0, (1 / counts)[place], 0.0)


class Kinds(NamedTuple):
    """Parts of the facts that a reader may choose, other than relations.

    :param labels: such as "cardinality: 1:1". :param of_facts: numbers of the parts that contain each fact.
    """

    labels: list[str]
    of_facts: list[list[int]]


def label_of(key: str, value: str) -> str:
    """Return "cardinality: 1:1", and of yes and no "planted" or "withheld"."""
    if value in ("True", "true"):
        return key
    return OPPOSITES.get(key, f"not {key}") if value in ("False", "false") else f"{key}: {value}"


def kinds_of(evidence: Evidence, predictions: PredictionColumns) -> Kinds:
    """Return the groups of the queries, and the facts that all runs scored, all or none has right, or some left out."""
    labels: dict[str, int] = {}
    of_facts: list[list[int]] = [[] for _ in evidence.facts]
    texts = evidence.pool.texts
    for key in evidence.keys:
        for fact, groups in enumerate(evidence.groups):
            values = filter(None, map(str.strip, texts[groups.get(key, 0)].split(";")))
            for value in dict.fromkeys(values) or (NONE,):
                of_facts[fact].append(labels.setdefault(label_of(key, value), len(labels)))
    hits = evidence.hits
    unscored = np.isin(np.arange(len(evidence.facts)), predictions.fact[predictions.reason > 0])
    for label, members in (
        ("scored by all runs", ~np.isnan(hits).any(axis=0)),
        ("right by all runs", (hits == 1).all(axis=0)),
        ("right by no run", (hits == 0).all(axis=0)),
        ("a prediction unscored", unscored),
    ):
        for fact in np.flatnonzero(members).tolist():
            of_facts[fact].append(labels.setdefault(label, len(labels)))
    return Kinds(list(labels), of_facts)
