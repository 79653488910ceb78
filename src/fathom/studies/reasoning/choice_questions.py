"""Multiple-choice questions, each with what a model chose, for the choice study."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fathom.errors import BadInput
from fathom.results.names import short_names
from fathom.results.recipes import combined, recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, Sample, check_key, sample_of_origins
from fathom.store.folder import RunFolder

_BY_DESIGN = {"p1": "it is how the data give P1, not how questions were sampled"}
_COLUMNS = ("answer_ids", "top_ids", "top_scores", "letters", "gold_letters")


class QuestionChoices(NamedTuple):
    """The choices of one question over its orders and statements, and its gold answer.

    :param options: names, in the order of the data.
    :param picked: share of the choices by option; empty if nothing was chosen.
    :param letters: share of the choices by letter; empty without letters, or in runs of early versions.
    :param gold_letters: share of the gold answer's places by letter.
    """

    options: tuple[str, ...]
    gold: str
    picked: Mapping[str, float]
    letters: Mapping[str, float]
    gold_letters: Mapping[str, float]


class MarkedQuestion(NamedTuple):
    """A question with its credit.

    :param credit: mean over its statements, NaN if one has none.
    :param reason: why it is NaN, else "".
    """

    groups: Mapping[str, str]
    credit: float
    reason: str
    origin: Origin
    chosen: QuestionChoices


class ModelQuestions(NamedTuple):
    """The questions of one model in one scoring, by id. :param recipes: of its runs."""

    model: str
    scoring: str
    questions: dict[str, MarkedQuestion]
    recipes: list[str]

    def recipe(self, name: str) -> str:
        """Return the recipe of a number of this name."""
        return combined(name, self.recipes, " and ")


def sample_of(questions: Sequence[MarkedQuestion], default: Sample) -> Sample:
    """Return the sample by the key that the user chose, else *default*."""
    origins = [question.origin for question in questions]
    return sample_of_origins(origins) if any(origin.key for origin in origins) else default


def questions_of(runs: Sequence[RunFolder], cluster: str) -> list[ModelQuestions]:
    """Return each model in each scoring, with its questions of all runs.

    :param cluster: key by which questions were drawn together; some run must have it.
    :raises BadInput: a run without such questions, a question twice for one model, or with different options.
    """
    tables = [Rows(run, with_scores=False) for run in runs]
    check_key(cluster, (key for rows in tables for groups in rows.groups for key in groups), _BY_DESIGN)
    _check_options(runs, tables)
    models: dict[tuple[str, str], ModelQuestions] = {}
    for run, rows, name in zip(runs, tables, short_names(runs), strict=True):
        for scoring in rows.scorings:
            questions = _questions(run, rows, scoring, cluster)
            model = models.setdefault((name, scoring), ModelQuestions(name, scoring, {}, []))
            if double := next((id_ for id_ in questions if id_ in model.questions), None):
                raise BadInput(f"{run.path}: another run has question {double} of {name} {scoring}, too: leave one out")
            model.questions.update(questions)
            model.recipes.append(recipe(rows, "accuracy", scoring))
    return list(models.values())


def _questions(run: RunFolder, rows: Rows, scoring: str, cluster: str) -> dict[str, MarkedQuestion]:
    if not any({"task", "rule"} & groups.keys() for groups in rows.groups):
        raise BadInput(
            f"{run.path}: no memorising task and no rule in it: expected a run on multiple-choice data as OntoProbe's, "
            "or on what fathom build choices makes"
        )
    places = grouped((int(rows.query[place]), place) for place in rows.of(scoring).tolist())
    hits, choices = rows.hits(1), _Choices(rows)
    return {
        rows.query_ids[query]: MarkedQuestion(
            rows.groups[query],
            float(hits[own].mean()),
            next((reason for place in own if (reason := rows.reason[place]) is not None), ""),
            rows.origin(query, cluster),
            choices.of(query, own),
        )
        for query, own in places.items()
        if {"task", "rule"} & rows.groups[query].keys()
    }


class _Choices:
    """The choices of a run's predictions."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        existing = [name for name in _COLUMNS if name in rows.table.column_names]
        self._columns = {name: rows.table.column(name).to_pylist() for name in existing}

    def of(self, query: int, places: Sequence[int]) -> QuestionChoices:
        ids, names = self.rows.candidates.get(self.rows.spaces[query] or "", ((), ()))
        name_of = dict(zip(ids, names, strict=True))
        gold = next(iter(self.rows.gold[query]), "")
        picked = [name_of.get(id_, id_) for place in places for id_ in self._best(place)]
        letters, right = (
            [one for place in places for one in self._at(name, place)] for name in ("letters", "gold_letters")
        )
        pairs = [pair for pair in zip(letters, right, strict=True) if pair[0] is not None]
        chosen, golds = ([pair[side] for pair in pairs] for side in (0, 1))
        return QuestionChoices(tuple(names), name_of.get(gold, gold), _shares(picked), _shares(chosen), _shares(golds))

    def _best(self, place: int) -> list[str]:
        """Return the ids of the written answers, else of all that score best."""
        if written := [id_ for id_ in self._at("answer_ids", place) if id_ is not None]:
            return written
        scores = self._at("top_scores", place)
        best = max(scores, default=0.0)
        return [id_ for id_, score in zip(self._at("top_ids", place), scores, strict=True) if score == best]

    def _at(self, name: str, place: int) -> list[Any]:
        return self._columns[name][place] or [] if name in self._columns else []


def _shares(values: Sequence[str]) -> dict[str, float]:
    shares: dict[str, float] = defaultdict(float)
    for value in values:
        shares[value] += 1 / len(values)
    return dict(shares)


def _check_options(runs: Sequence[RunFolder], tables: Sequence[Rows]) -> None:
    """:raises BadInput: a question has different options in two runs."""
    options: dict[str, tuple[tuple[str, ...], RunFolder]] = {}
    for run, rows in zip(runs, tables, strict=True):
        for question, (_, names) in rows.candidates.items():
            first = options.setdefault(question, (tuple(names), run))
            if first[0] != tuple(names):
                raise BadInput(f"question {question} has other options in {run.path} than in {first[1].path}")
