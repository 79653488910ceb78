"""Keys whose values are numbers: queries in bins of similar size, and the trend of accuracy.

The trend is Spearman's rank correlation of the number with the accuracy of each fact. Since popular facts may be of
easy relations, its controls are the correlation within relations, of ranks less the mean of their relation, and the
difference between the highest and the lowest bin, each relation compared by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.base.errors import BadInput
from fathom.results.estimates import Estimate, contrast, correlation, correlation_within, point_estimate, recipe
from fathom.results.rows import NONE, Floats, Ints, Rows
from fathom.results.tables import Table

BINS = 5
OF_NUMBERS = {"popularity": "subject_views", "answer_popularity": "answer_views", "period": "valid_from"}
"""Names that are broken down into bins → the key that has their numbers."""

_TYPED = re.compile(r"(.+):([1-9]\d*)")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_DATE = re.compile(r"(-?\d{3,})-\d\d(-\d\d)?")
_UNKNOWN = ("", "unknown")
_FEWEST = 3
"""Facts of a trend."""


class Bins(NamedTuple):
    """Queries by a number.

    :param values: one per query; NaN if unknown.
    :param labels: one per query, "6 to 218"; :data:`~fathom.results.rows.NONE` without a number.
    :param order: labels, from the smallest numbers to the greatest.
    """

    name: str
    values: Floats
    labels: Sequence[str]
    order: Sequence[str]


def parse_bins(rows: Rows, typed: str) -> Bins | None:
    """Parse a value of ``--by``: a key of numbers (popularity), or ``key:10`` for so many bins; else None.

    :raises BadInput: bins of a key whose values are no numbers.
    """
    match = _TYPED.fullmatch(typed) if typed not in rows.keys else None
    name, count = (match[1], int(match[2])) if match else (typed, BINS)
    key = next((key for key in (OF_NUMBERS.get(name), name) if key in rows.keys), None)
    if key is None or (match is None and name not in OF_NUMBERS):
        return None
    numbers = {text: parse_number(text) for text in {rows.text_of(q, key) or "" for q in range(len(rows.query_ids))}}
    wrong = min((text for text, number in numbers.items() if number is None), default=None)
    if wrong is None:
        values = [numbers[rows.text_of(query, key) or ""] for query in range(len(rows.query_ids))]
        return _binned(name, np.array(values, dtype=np.float64), count)
    if match is None:  # popularity as classes, in runs of a graph or of an earlier version
        return None
    raise BadInput(f"--by {typed}: bins need numbers, {name} has values such as {wrong!r}: type --by {name}")


def numbers_first(value: object) -> tuple[float, str]:
    """Return a sort key: "4 to 15" comes before "16 to 63", and a text without a leading number last."""
    number = re.match(r"-?\d+", str(value))
    return (int(number[0]) if number else float("inf")), str(value)


def parse_number(text: str) -> float | None:
    """Parse a number or the year of a date; NaN if unknown, None for any other text."""
    if text in _UNKNOWN:
        return float("nan")
    date = _DATE.fullmatch(text)
    if date or _NUMBER.fullmatch(text):
        return float(date[1] if date else text)
    return None


def _binned(name: str, values: Floats, count: int) -> Bins:
    """Make bins as even as possible without separating equal values."""
    has_value = ~np.isnan(values)
    shares = np.arange(1, count) / count
    edges: Floats = np.quantile(values[has_value], shares, method="inverted_cdf") if has_value.any() else shares[:0]
    place = np.searchsorted(edges, values)
    names = {int(bin_): _label(values[has_value & (place == bin_)]) for bin_ in np.unique(place[has_value])}
    labels = [names[bin_] if valid else NONE for bin_, valid in zip(place.tolist(), has_value.tolist(), strict=True)]
    return Bins(name, values, labels, [*names.values(), NONE])


def _label(values: Floats) -> str:
    low, high = (f"{end:.15g}" for end in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


def trend_table(rows: Rows, bins: Bins) -> Table:
    """Return both correlations of each scoring, and the highest bin − the lowest."""
    table = [
        {"scoring": scoring, "trend": name, "value": number, "n": number.n}
        for scoring in rows.scorings
        for name, number in _trend(rows, bins, scoring)
    ]
    notes = (
        "n: facts; Spearman's rank correlation with the accuracy of each fact; within relations: of ranks less the "
        "mean of their relation; highest − lowest: accuracy of the bins, each relation compared by itself",
    )
    return Table.of(table, f"Trend of accuracy by {bins.name}", notes)


def _trend(rows: Rows, bins: Bins, scoring: str) -> list[tuple[str, Estimate]]:
    queries, values, hits = _facts(rows, bins, scoring)
    whole, within, contrasted = (
        f"{recipe(rows, name, scoring)}|by:{bins.name}"
        for name in ("spearman", "spearman within relations", "highest − lowest")
    )
    if len(queries) < _FEWEST:
        return [
            ("rank correlation", point_estimate(f"fewer than {_FEWEST} facts have a number and were scored", whole))
        ]
    from scipy.stats import rankdata  # as all of scipy.stats, slow to load

    sample, relations = rows.sample(queries), [rows.relations[query] for query in queries]
    x, y = (np.asarray(rankdata(side), float) for side in (values, hits))
    labels = np.array([bins.order.index(bins.labels[query]) for query in queries])
    ends = np.isin(labels, (labels.min(), labels.max()))
    highest, compared = (labels == labels.max())[ends], np.asarray(relations)[ends].tolist()
    units = _units(rows, np.asarray(queries)[ends], highest)
    difference = contrast(hits[ends], highest, sample.only(ends), contrasted, compared, units=units).shown(".3f")
    return [
        ("rank correlation", correlation(x, y, sample, whole)),
        ("rank correlation within relations", correlation_within(x, y, relations, sample, within)),
        ("highest − lowest", difference),
    ]


def _units(rows: Rows, queries: Ints, highest: npt.NDArray[np.bool_]) -> Sequence[str] | None:
    """Return the label that decides each fact's bin, since all of a subject's facts share its popularity.

    It is the subject or the answer; None where neither decides.
    """
    of_subject = [rows.subjects[query] or f"alone {query}" for query in queries.tolist()]
    of_answer = [" ".join(rows.gold[query]) or f"alone {query}" for query in queries.tolist()]
    for labels in (of_subject, of_answer):
        number = len(set(labels))
        if number < len(labels) and len(set(zip(labels, highest.tolist(), strict=True))) == number:
            return labels
    return None


def _facts(rows: Rows, bins: Bins, scoring: str) -> tuple[list[int], Floats, Floats]:
    """Return the first query, the number and the accuracy of each scored fact that has a number."""
    places, hits = rows.of(scoring), rows.hits(1)
    values = bins.values[rows.query]
    places = places[rows.scored[places] & ~np.isnan(hits[places]) & ~np.isnan(values[places])]
    firsts, unit = np.unique(rows.unit[rows.query[places]], return_inverse=True)
    count = np.bincount(unit, minlength=len(firsts))
    numbers, accuracy = (np.bincount(unit, side[places], len(firsts)) / count for side in (values, hits))
    return firsts.tolist(), numbers, accuracy
