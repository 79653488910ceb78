"""What a data set is like before any model is asked: its size, its chance level, how skewed its answers are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from fathom.data.queries import Query, QuerySet


class RelationStatistics(NamedTuple):
    """:param baseline: expected accuracy of a random answer.
    :param majority: accuracy of always giving the most frequent answer.
    :param single_token: share of gold answers that are one token, alone and after a space.
    """

    relation: str
    cardinality: str
    domains: str
    instances: int
    candidates: int
    templates: int
    baseline: float
    majority: float
    single_token: tuple[float, float] | None


def random_baseline(queryset: QuerySet, queries: list[Query] | tuple[Query, ...]) -> float:
    """Mean over *queries* of (number of right answers) / (number of candidates)."""
    return sum(len(query.gold) / len(queryset.candidates[query.candidates]) for query in queries) / len(queries)


def majority_share(queries: list[Query]) -> float:
    """How often the most frequent answer is right."""
    counts = Counter(answer for query in queries for answer in query.gold)
    return counts.most_common(1)[0][1] / len(queries)


def relation_statistics(
    queryset: QuerySet, count_tokens: Callable[[list[str]], list[int]] | None = None
) -> list[RelationStatistics]:
    """One row per relation.

    :param count_tokens: number of tokens of each text, without special tokens.
    """
    rows = []
    for id_, queries in queryset.by_relation().items():
        relation, space = queryset.relations[id_], queryset.candidates[queries[0].candidates]
        single = None
        if count_tokens is not None:
            answers = [space.name_of(answer) for query in queries if query.unscored is None for answer in query.gold]
            alone, after_space = count_tokens(answers), count_tokens([" " + answer for answer in answers])
            total = len(answers) or 1
            single = (alone.count(1) / total, after_space.count(1) / total)
        rows.append(
            RelationStatistics(
                id_,
                relation.cardinality,
                "; ".join(relation.domains),
                len(queries),
                len(space),
                len(relation.templates),
                random_baseline(queryset, queries),
                majority_share(queries),
                single,
            )
        )
    return rows
