"""The best setting of a model, chosen on other items than those that it is shown for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.data.selection.folds import folds_of
from fathom.errors import BadInput, refuse
from fathom.results.estimates import Estimate, mean
from fathom.results.recipes import combined
from fathom.results.rows import Floats, Ints, Rows
from fathom.results.tasks import FORMATS, Setting, TaskLine, items_drawn, metrics


class Chosen(NamedTuple):
    """The settings of one model and task, in each fold of the items the one that is best on the others.

    :param settings: how many folds each was chosen for.
    :param numbers: of all folds together, by the names of :data:`fathom.results.tasks.MEASURED`.
    :param asked: of each item the run that answered it, and the query.
    :param reciprocal: 1 / rank of each.
    """

    settings: Mapping[Setting, int]
    numbers: dict[str, Estimate]
    asked: list[tuple[Rows, int]]
    reciprocal: Floats


class _Fold(NamedTuple):
    """:param line: the setting that was chosen. :param places: of its scored predictions of this fold's items."""

    line: TaskLine
    places: Ints


def chosen_by_folds(lines: Sequence[TaskLine], folds: int, seed: int) -> Chosen:
    """Of the settings of one model and task, all of which ask the same items.

    :raises BadInput: fewer subjects than two, which leave none to choose on.
    """
    [task] = {line.setting.task for line in lines}
    subjects = {
        rows.query_ids[query]: rows.subjects[query] or rows.query_ids[query]
        for rows in (line.rows for line in lines)
        for query in rows.by_relation()[task]
    }
    fold_of = folds_of(task, subjects, folds, seed)
    count = max(fold_of.values()) + 1
    if count < 2:
        refuse([f"--cross-validate: {task} has one item, and none is left to choose its best setting on: leave it out"])
    found = [_best_elsewhere(lines, fold_of, fold) for fold in range(count)]
    asked = [(line.rows, query) for line, places in found for query in line.rows.query[places].tolist()]
    sample = items_drawn(asked)
    numbers = {}
    for name, metric in metrics().items():
        values = np.concatenate([line.rows.columns(metric)[0][places] for line, places in found])
        recipes = [line.numbers[name].recipe for line, _ in found]
        made = f"{combined(name, recipes, ' and ')}|chosen:on the other of {count} folds, seed {seed}"
        numbers[name] = mean(values, sample, made, form=FORMATS[name])
    reciprocal = np.concatenate([line.rows.reciprocal()[places] for line, places in found])
    return Chosen(Counter(line.setting for line, _ in found), numbers, asked, reciprocal)


def _best_elsewhere(lines: Iterable[TaskLine], fold_of: Mapping[str, int], fold: int) -> _Fold:
    """The line of the highest MRR on the other folds; of several the first."""
    best, highest = None, -1.0
    for line in lines:
        places = line.places[line.rows.scored[line.places]]
        own = np.array([fold_of[line.rows.query_ids[query]] == fold for query in line.rows.query[places].tolist()])
        elsewhere = line.rows.reciprocal()[places[~own]]
        if len(elsewhere) and elsewhere.mean() > highest:
            best, highest = _Fold(line, places[own]), float(elsewhere.mean())
    if best is None:
        raise BadInput("--cross-validate: all items with a rank are in one fold: leave the task out, or ask more")
    return best
