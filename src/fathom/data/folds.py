"""Folds of items: parts of equal size, each evaluated with what is learnt from the others."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from fathom.data.queries import Query, QuerySet

FOLD = "fold"
"""Group of a query: the number of its fold, from 1."""
LEAST = 3
"""One to evaluate, one to choose the epoch, one to learn from."""


def folds_of(task: str, subjects: Mapping[str, str], number: int, seed: int) -> dict[str, int]:
    """Return the fold of each item of a task, from 0, by id.

    All items of a subject are in one fold, so that nothing is learnt about it. Folds differ by at most one subject;
    with fewer subjects than folds, each subject is a fold. The order of items does not matter.
    """
    different = sorted(set(subjects.values()))
    random.Random(f"{seed} folds {task}").shuffle(different)
    fold = {subject: place % number for place, subject in enumerate(different)}
    return {id_: fold[subject] for id_, subject in subjects.items()}


def folds_of_queries(queries: Sequence[Query], number: int, seed: int) -> dict[str, int]:
    """Return :func:`folds_of` all queries of one task."""
    return folds_of(queries[0].relation, {query.id: query.subject or query.id for query in queries}, number, seed)


def taught(fold_of: Mapping[str, int], fold: int, able: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the ids of the items to learn from, and of those that choose the epoch, for one fold.

    The epoch is chosen on the next fold with a learnable item; all other folds are learnt from.

    :param fold_of: fold of each item, from 0.
    """
    number = max(fold_of.values()) + 1
    following = [(fold + step) % number for step in range(1, number)]
    fit = {fold_of[id_] for id_ in able}
    chooses = next((number for number in following if number in fit), None)
    learn = [id_ for id_, part in fold_of.items() if part not in (fold, chooses)]
    return learn, [id_ for id_, part in fold_of.items() if part == chooses]


def with_folds(data: QuerySet, number: int, seed: int) -> QuerySet:
    """Add to each selected query its fold among all queries of its task."""
    whole = (data.whole or data).by_relation()
    tasks = dict.fromkeys(query.relation for query in data.queries)
    fold = {
        id_: fold_number for task in tasks for id_, fold_number in folds_of_queries(whole[task], number, seed).items()
    }
    queries = (replace(query, groups={**query.groups, FOLD: str(fold[query.id] + 1)}) for query in data.queries)
    return replace(data, queries=tuple(queries))


def all_with_folds(data: QuerySet, number: int, seed: int) -> QuerySet:
    """Apply :func:`with_folds` to the selected queries and to the data they come from."""
    return replace(with_folds(data, number, seed), whole=with_folds(data.whole or data, number, seed))
