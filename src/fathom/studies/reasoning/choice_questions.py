"""Multiple-choice questions, each with what a model chose, for the choice study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fathom.errors import BadInput
from fathom.results.names import short_names
from fathom.results.recipes import combined, recipe
from fathom.results.rows import Rows, grouped
from fathom.results.samples import Origin, Sample, check_key, sample_of_origins
from fathom.store.folder import RunFolder

_BY_DESIGN = {"p1": "it is how the data give P1, not how questions were sampled"}


class MarkedQuestion(NamedTuple):
    """A question with its credit.

    :param credit: mean over its statements, NaN if one has none.
    :param reason: why it is NaN, else "".
    :param text: its first prompt, without options.
    :param options: names, in the order of the data.
    """

    groups: Mapping[str, str]
    credit: float
    reason: str
    origin: Origin
    text: str
    options: Sequence[str]
    gold: str


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
    hits = rows.hits(1)
    questions = {}
    for query, own in places.items():
        if {"task", "rule"} & rows.groups[query].keys():
            ids, names = rows.candidates.get(rows.spaces[query] or "", ((), ()))
            gold = next(iter(rows.gold[query]), "")
            questions[rows.query_ids[query]] = MarkedQuestion(
                rows.groups[query],
                float(hits[own].mean()),
                next((reason for place in own if (reason := rows.reason[place]) is not None), ""),
                rows.origin(query, cluster),
                rows.asked(own[0])[0].partition(" (a) ")[0],
                names,
                dict(zip(ids, names, strict=True)).get(gold, gold),
            )
    return questions


def _check_options(runs: Sequence[RunFolder], tables: Sequence[Rows]) -> None:
    """:raises BadInput: a question has different options in two runs."""
    options: dict[str, tuple[tuple[str, ...], RunFolder]] = {}
    for run, rows in zip(runs, tables, strict=True):
        for question, (_, names) in rows.candidates.items():
            first = options.setdefault(question, (tuple(names), run))
            if first[0] != tuple(names):
                raise BadInput(f"question {question} has other options in {run.path} than in {first[1].path}")
