"""How clearly each prediction prefers its gold answer, and scores from which a model's prior is subtracted.

A model may prefer some answers to every question: it has a prior. Two estimates of the prior are subtracted:

- of *other subjects*: each candidate's mean score over the other queries of the same relation and template;
- of *no subject*: its score in a run with ``--alter no-subject``, "… lives in [Y]". The difference is the pointwise
  mutual information of subject and answer (Holtzman et al. 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fathom.results.rows import Floats, Ints, Rows, best_gold, grouped


class Preference(NamedTuple):
    """Values per prediction of a run, shape (n); NaN where unknown.

    :param margin: score of the best gold answer less that of the best other candidate, in the unit of the scoring.
    :param place: minus the decimal logarithm of the gold answer's rank, so that more is better.
    """

    margin: Floats
    place: Floats


def preference(rows: Rows, scoring: str) -> Preference:
    """Return the preference as scored. Written and chosen answers, which have no rank, have their credit for both."""
    margin, credit = np.full(len(rows.rank), np.nan), rows.correct
    tops = rows.table.select(["top_ids", "top_scores", "gold_scores"])
    for place in rows.of(scoring).tolist():
        if len(rows.scores(place)):
            margin[place] = _margin(rows, place, rows.scores(place))
        elif (golds := tops["gold_scores"][place].as_py()) and (ids := tops["top_ids"][place].as_py()):
            right = {*rows.gold[rows.query[place]], *(rows.known[rows.query[place]] or ())}
            others = zip(ids, tops["top_scores"][place].as_py(), strict=True)
            best = next((score for id_, score in others if id_ not in right), np.nan)
            gold = golds[best_gold(golds)]
            margin[place] = np.nan if gold is None else gold - best
    has_rank = ~np.isnan(rows.rank)
    return Preference(
        np.where(has_rank, margin, credit), np.where(has_rank, -np.log10(np.fmax(rows.rank, 1)), credit)
    )  # fmt: skip


def without_prior(rows: Rows, scoring: str, no_subject: Rows | None = None) -> Preference | None:
    """Return the preference by scores less the prior; None if the run does not store the scores of all candidates.

    :param no_subject: run from whose scores the prior is taken; by default that of other subjects.
    """
    margin, place = (np.full(len(rows.rank), np.nan) for _ in range(2))
    priors: dict[_Key, Floats] | None = None
    if no_subject is not None:
        of_run = _groups(no_subject, scoring)
        priors = {key: np.nanmean(_finite(no_subject, places), axis=0) for key, places in of_run.items()}
    for key, places in _groups(rows, scoring).items():
        matrix = _finite(rows, places)
        prior = _mean_of_others(matrix) if priors is None else priors.get(key)
        if prior is None or prior.shape[-1] != matrix.shape[-1]:
            continue
        for at, scores in zip(places, matrix - prior, strict=True):
            margin[at] = _margin(rows, at, scores)
            place[at] = -np.log10(_rank(rows, at, scores))
    return None if np.isnan(margin).all() else Preference(margin, place)


_Key = tuple[str, int, str | None]


def _groups(rows: Rows, scoring: str) -> Mapping[_Key, list[int]]:
    """Return predictions with the scores of all candidates by relation, template and candidates."""
    places = (place for place in rows.of(scoring).tolist() if rows.scored[place] and len(rows.scores(place)))
    queries = ((place, int(rows.query[place])) for place in places)
    return grouped(
        ((rows.relations[query], int(rows.template[place]), rows.spaces[query]), place) for place, query in queries
    )


def _finite(rows: Rows, places: list[int]) -> Floats:
    """Return the scores of all candidates, shape (places, candidates); NaN for those that could not be ranked."""
    matrix = np.stack([rows.scores(place) for place in places])
    return np.where(np.isfinite(matrix), matrix, np.nan)


def _mean_of_others(matrix: Floats) -> Floats | None:
    """Return the mean of the other rows for each row, shape (n, candidates); None for a single row."""
    if len(matrix) == 1:
        return None
    known = np.isfinite(matrix)
    return np.asarray((np.nansum(matrix, axis=0) - np.nan_to_num(matrix)) / np.fmax(known.sum(axis=0) - known, 1))


def _sides(rows: Rows, place: int) -> tuple[list[int], Ints]:
    """Return the places of gold answers, and those of wrong candidates."""
    query = int(rows.query[place])
    gold = rows.gold_places(place)
    wrong = np.ones(len(rows.scores(place)), dtype=bool)
    wrong[[*gold, *rows.candidate_places(place, rows.known[query] or ())]] = False
    return gold, np.flatnonzero(wrong)


def _margin(rows: Rows, place: int, scores: Floats) -> float:
    gold, wrong = _sides(rows, place)
    if not gold or not len(wrong):
        return float("nan")
    return float(np.nanmax(scores[gold]) - np.nanmax(scores[wrong]))


def _rank(rows: Rows, place: int, scores: Floats) -> float:
    """Return the realistic rank of the best gold answer among wrong candidates."""
    gold, wrong = _sides(rows, place)
    if not gold:
        return float("nan")
    best = np.nanmax(scores[gold])
    return float(1 + np.count_nonzero(scores[wrong] > best) + np.count_nonzero(scores[wrong] == best) / 2)
