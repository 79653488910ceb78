"""What models were asked in multiple choice, question by question, as the tables of the study of choice need it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fathom.errors import BadInput
from fathom.results.names import short_names
from fathom.results.recipes import recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, check_key
from fathom.store.folder import RunFolder

_BY_DESIGN = {"p1": "it is how the data give P1, of which nobody drew a sample"}


class Chosen(NamedTuple):
    """What was chosen in one question, and what was right.

    :param options: names, in the order of the data.
    :param gold: the right one.
    :param picked: by option, how often of all times that it was asked and one was chosen; empty where none was.
    :param letters: by letter, likewise; empty where options had none, or a run of before did not record it.
    :param gold_letters: how often the right option stood at each.
    """

    options: tuple[str, ...]
    gold: str
    picked: Mapping[str, float]
    letters: Mapping[str, float]
    gold_letters: Mapping[str, float]


class MarkedQuestion(NamedTuple):
    """:param credit: mean over its statements, NaN where one has none.
    :param reason: why, "" where it has.
    :param origin: how it was drawn, as the user says."""

    groups: Mapping[str, str]
    credit: float
    reason: str
    origin: Origin
    chosen: Chosen


class ModelAsked(NamedTuple):
    """What one model was asked in one scoring.

    :param questions: by id.
    :param made: recipes of its runs.
    """

    model: str
    scoring: str
    questions: dict[str, MarkedQuestion]
    made: list[str]


def asked_of(runs: Sequence[RunFolder], cluster: str) -> list[ModelAsked]:
    """Each model in each scoring, its questions of all runs together.

    :param cluster: key by which questions were drawn together, which some run must have.
    :raises BadInput: no such question in a run, a question asked twice of one model, or with other options.
    """
    read = [Rows(run, with_scores=False) for run in runs]
    check_key(cluster, (key for rows in read for groups in rows.groups for key in groups), _BY_DESIGN)
    _check_options(runs, read)
    asked: dict[tuple[str, str], ModelAsked] = {}
    for run, rows, model in zip(runs, read, short_names(runs), strict=True):
        for scoring in rows.scorings:
            questions = _questions(run, rows, scoring, cluster)
            of_model = asked.setdefault((model, scoring), ModelAsked(model, scoring, {}, []))
            if double := next((id_ for id_ in questions if id_ in of_model.questions), None):
                raise BadInput(
                    f"{run.path}: another run has question {double} of {model} {scoring}, too: leave one out"
                )
            of_model.questions.update(questions)
            of_model.made.append(recipe(rows, "accuracy", scoring))
    return list(asked.values())


def _questions(run: RunFolder, rows: Rows, scoring: str, cluster: str) -> dict[str, MarkedQuestion]:
    """:raises BadInput: no memorising and no reasoning question."""
    if not any({"task", "rule"} & groups.keys() for groups in rows.groups):
        raise BadInput(
            f"{run.path}: no memorising task and no rule in it: expected a run on multiple-choice data as OntoProbe's, "
            "or on what fathom build choices makes"
        )
    places = grouped((int(rows.query[place]), place) for place in rows.of(scoring).tolist())
    hits, named = rows.hits(1), _Named(rows)
    return {
        rows.query_ids[query]: MarkedQuestion(
            rows.groups[query],
            float(hits[own].mean()),
            next((reason for place in own if (reason := rows.reason[place]) is not None), ""),
            rows.origin(query, cluster),
            named.chosen(query, own),
        )
        for query, own in places.items()
        if {"task", "rule"} & rows.groups[query].keys()
    }


class _Named:
    """What the predictions of a run name as chosen."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        there = set(rows.table.column_names)
        wanted = ("answer_ids", "top_ids", "top_scores", "letters", "gold_letters")
        self._columns = {name: rows.table.column(name).to_pylist() if name in there else None for name in wanted}

    def chosen(self, query: int, places: Sequence[int]) -> Chosen:
        ids, names = self.rows.candidates.get(self.rows.spaces[query] or "", ((), ()))
        called = dict(zip(ids, names, strict=True))
        gold = next(iter(self.rows.gold[query]), "")
        picked = [called.get(id_, id_) for place in places for id_ in self._best(place)]
        letters, right = ([one for place in places for one in self._at(name, place)] for name in _LETTERS)
        told = [(letter, gold_letter) for letter, gold_letter in zip(letters, right, strict=True) if letter is not None]
        return Chosen(
            tuple(names),
            called.get(gold, gold),
            _shares(picked),
            _shares([letter for letter, _ in told]),
            _shares([letter for _, letter in told]),
        )

    def _best(self, place: int) -> list[str]:
        """What was written, else what scored best: all that tie."""
        if said := [id_ for id_ in self._at("answer_ids", place) if id_ is not None]:
            return said
        scores = self._at("top_scores", place)
        best = max(scores, default=0.0)
        return [id_ for id_, score in zip(self._at("top_ids", place), scores, strict=True) if score == best]

    def _at(self, name: str, place: int) -> list[Any]:
        column = self._columns[name]
        return [] if column is None else column[place] or []


_LETTERS = ("letters", "gold_letters")


def _shares(values: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for value in values:
        found[value] += 1 / len(values)
    return dict(found)


def _check_options(runs: Sequence[RunFolder], read: Sequence[Rows]) -> None:
    """Two models must have had the same choice."""
    options: dict[str, tuple[tuple[str, ...], RunFolder]] = {}
    for run, rows in zip(runs, read, strict=True):
        for question, (_, names) in rows.candidates.items():
            first = options.setdefault(question, (tuple(names), run))
            if first[0] != tuple(names):
                raise BadInput(f"question {question} has other options in {run.path} than in {first[1].path}")
