"""Folds of items: parts of equal size, each of which is asked by what the others teach."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from fathom.data.queries import Query, QuerySet

FOLD = "fold"
"""Group of a query: the number of its fold, from 1."""
LEAST = 3
"""One to ask, one to choose by, one to learn from."""


def folds_of(task: str, subjects: Mapping[str, str], number: int, seed: int) -> dict[str, int]:
    """The fold of each item of a task, from 0, by its id.

    What is asked about one subject is in one fold, so that nothing is learnt of what is asked. Folds differ by one
    subject at most; with fewer subjects than folds each is a fold by itself. The same items, number and seed give the
    same folds, in whatever order they stand.

    :param subjects: of each item, by its id.
    """
    different = sorted(set(subjects.values()))
    random.Random(f"{seed} folds {task}").shuffle(different)
    fold = {subject: place % number for place, subject in enumerate(different)}
    return {id_: fold[subject] for id_, subject in subjects.items()}


def folds_of_queries(queries: Sequence[Query], number: int, seed: int) -> dict[str, int]:
    """:func:`folds_of` all queries of one task."""
    return folds_of(queries[0].relation, {query.id: query.subject or query.id for query in queries}, number, seed)


def taught(fold_of: Mapping[str, int], fold: int, able: Collection[str]) -> tuple[list[str], list[str]]:
    """What teaches a fold: ids of the items to learn from, and of those that choose the epoch. These are the next fold
    of which something can be learnt, in turn; those all others but the fold itself.

    :param fold_of: of each item, from 0.
    :param able: ids of the items that can be learnt from.
    """
    number = max(fold_of.values()) + 1
    following = [(fold + step) % number for step in range(1, number)]
    fit = {fold_of[id_] for id_ in able}
    chooses = next((one for one in following if one in fit), None)
    learn = [id_ for id_, own in fold_of.items() if own not in (fold, chooses)]
    return learn, [id_ for id_, own in fold_of.items() if own == chooses]


def with_folds(data: QuerySet, number: int, seed: int) -> QuerySet:
    """Selected queries, each with its fold among all of its task."""
    whole = (data.whole or data).by_relation()
    tasks = dict.fromkeys(query.relation for query in data.queries)
    fold = {id_: own for task in tasks for id_, own in folds_of_queries(whole[task], number, seed).items()}
    queries = (replace(query, groups={**query.groups, FOLD: str(fold[query.id] + 1)}) for query in data.queries)
    return replace(data, queries=tuple(queries))


def all_with_folds(data: QuerySet, number: int, seed: int) -> QuerySet:
    """:func:`with_folds`, and so what the queries were selected from."""
    return replace(with_folds(data, number, seed), whole=with_folds(data.whole or data, number, seed))
