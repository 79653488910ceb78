"""Consistency of a model over paraphrases of a fact: RankC and the first answer, for each two of them.

Paraphrases are the templates of a query, or queries of one ``fact_id`` that differ in a key, such as language (BMLAMA)
or prompt (CounterFact). RankC (Qi, Fernández and Bisazza 2023) compares whole rankings
(:func:`~fathom.results.metrics.ranking.rankc`). *Same answer* is the chance that both give the same first answer. The
control is RankC of independent rankings, which is high with few candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results.estimates import Estimate, mean, point_estimate, recipe
from fathom.results.metrics.ranking import consistency, rankc, rankc_by_chance, top_chances
from fathom.results.rows import NONE, Floats, Rows, grouped
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder

TEMPLATE, ALL = "template", "all pairs"


class _Ranking(NamedTuple):
    """One prediction. :param ids: of its candidates, in the order of *best*."""

    ids: tuple[str, ...]
    best: Floats
    tops: frozenset[str]


_Compared = tuple[float, ...]
"""RankC, RankC by chance, and how often the first answer is the same."""


def consistency_table(run: RunFolder, over: str, cluster: str = "") -> Table:
    """Return a line for all pairs (the mean of each fact's), then one for each two values of a key.

    :param over: "template", or a key of the queries' groups.
    :raises BadInput: the queries have no such key.
    """
    rows = Rows(run, cluster=cluster)
    if over != TEMPLATE and over not in rows.keys:
        raise BadInput(
            f"--consistency {over}: the queries have no such key; there is {', '.join((TEMPLATE, *rows.keys))}"
        )
    body: list[dict[str, Cell | Estimate]] = []
    notes = ["by chance: RankC of rankings that have nothing to do with each other; same answer: the same first answer"]
    for scoring in rows.scorings:
        asked, unlike = _asked(rows, scoring, over)
        pairs = _pairs(asked)
        body += _lines(rows, scoring, over, pairs)
        if unlike:
            notes.append(f"{scoring}: facts whose candidates differ: {unlike:,}, left out")
        if not pairs:
            notes.append(f"{scoring}: no fact has two rankings of the same candidates, with all their scores")
    title = f"Consistency over {over}"
    hidden = ("scoring",) if len(rows.scorings) == 1 else ()
    return Table.of(body, title, notes, main="RankC", inline=True, hidden=hidden, formats={"by chance": ".3f"})


def _asked(rows: Rows, scoring: str, over: str) -> tuple[dict[int, dict[str, list[_Ranking]]], int]:
    """Return rankings by the first query of the fact and by value, and the number of facts with unlike candidates."""
    rankings: dict[int, dict[str, list[_Ranking]]] = {}
    unlike: set[int] = set()
    for place in rows.of(scoring).tolist():
        query = int(rows.query[place])
        values = [str(rows.template[place])] if over == TEMPLATE else rows.values_of(query, over)
        ranking = _ranking(rows, place)
        if ranking is None or values == [NONE]:
            continue
        fact = query if over == TEMPLATE else int(rows.unit[query])
        own = rankings.setdefault(fact, {})
        if any(other.ids != ranking.ids for others in own.values() for other in others):
            unlike.add(fact)
        for value in values:
            own.setdefault(value, []).append(ranking)
    return {fact: own for fact, own in rankings.items() if fact not in unlike}, len(unlike)


def _ranking(rows: Rows, place: int) -> _Ranking | None:
    """Return None unless all candidates have a score; a candidate that cannot be ranked has −∞."""
    scores, space = rows.scores(place), rows.spaces[int(rows.query[place])]
    if not rows.scored[place] or space is None or not len(scores) or not np.isfinite(scores).all():
        return None
    ids = rows.candidates[space][0]
    order = sorted(range(len(ids)), key=ids.__getitem__)  # languages may list them in other orders
    return _Ranking(tuple(ids[at] for at in order), top_chances(scores[order]), rows.top_answers(place))


def _pairs(asked: Mapping[int, Mapping[str, Sequence[_Ranking]]]) -> dict[tuple[str, str], dict[int, _Compared]]:
    """Compare each two values, in order of appearance, by fact."""
    values = dict.fromkeys(value for own in asked.values() for value in own)
    pairs: dict[tuple[str, str], dict[int, _Compared]] = {}
    for pair in combinations(values, 2):
        for fact, own in asked.items():
            if {*pair} <= own.keys():
                pairs.setdefault(pair, {})[fact] = _compared(*(own[value] for value in pair))
    return pairs


def _compared(first: Sequence[_Ranking], second: Sequence[_Ranking]) -> _Compared:
    """Average over each ranking of the one and each of the other."""
    both = [(one, other) for one in first for other in second]
    return (
        float(np.mean([rankc(one.best, other.best) for one, other in both])),
        rankc_by_chance(len(first[0].ids)),
        float(consistency([[one.tops, other.tops] for one, other in both]).mean()),
    )


def _lines(
    rows: Rows, scoring: str, over: str, pairs: Mapping[tuple[str, str], Mapping[int, _Compared]]
) -> list[dict[str, Cell | Estimate]]:
    every = grouped((fact, one) for compared in pairs.values() for fact, one in compared.items())
    means = {fact: tuple(np.mean(own, axis=0).tolist()) for fact, own in every.items()}
    lines = [_line(rows, scoring, over, (ALL, ""), means)] if len(pairs) != 1 else []
    return [*lines, *(_line(rows, scoring, over, pair, compared) for pair, compared in pairs.items())]


def _line(
    rows: Rows, scoring: str, over: str, pair: tuple[str, str], compared: Mapping[int, _Compared]
) -> dict[str, Cell | Estimate]:
    sample, columns = rows.sample(list(compared)), np.array(list(compared.values())).reshape(-1, 3)
    made = [f"{recipe(rows, name, scoring)}|over:{over}" for name in ("rankc", "same answer")]
    rankc, same = (
        mean(columns[:, place], sample, line, form=form)
        if compared
        else point_estimate("there is no pair", line, form=form)
        for place, line, form in zip((0, 2), made, (".3f", ".1%"), strict=True)
    )
    by_chance = float(columns[:, 1].mean()) if compared else None
    return {
        "scoring": scoring,
        "first": pair[0],
        "second": pair[1],
        "facts": len(compared),
        "RankC": rankc,
        "by chance": by_chance,
        "same answer": same,
    }
