"""Which templates do models answer at all? Accuracy by relation and template, averaged over models (section 5.2 of
Shaier et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.results.numbers import Number, combined, mean, recipe, untold
from fathom.results.outcomes import BY_TEMPLATE, CUTS, Outcome, by_column, outcomes_of
from fathom.results.pairs import ACCURACIES
from fathom.results.rows import Floats, grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

OVER_MODELS = "no interval: a mean over models, which were chosen"


class OfTemplate(NamedTuple):
    """One template of one relation.

    :param wording: one of its prompts, "[X]" for the subject.
    :param prompts: scored ones, of all models.
    :param hits: Acc@1, Acc@5, Acc@10, the mean over models of each model's mean; of one model with its interval.
    :param deviation: standard deviation (n − 1) of Acc@1 over models; NaN for one.
    """

    data: str
    relation: str
    template: int
    wording: str
    models: int
    prompts: int
    hits: tuple[Number, ...]
    deviation: float


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> list[OfTemplate]:
    """In order of data set, relation and template. :raises BadInput: no run was asked by templates."""
    columns = by_column(outcomes_of(runs, scoring, cluster))
    chosen = {data: models for (data, reading), models in columns.items() if reading == BY_TEMPLATE}
    if not chosen:
        raise BadInput("none of these runs was asked by templates: ask with --reading template-based")
    return [line for data, models in chosen.items() for line in _lines(data, list(models.values()))]


def _lines(data: str, outcomes: Sequence[Outcome]) -> list[OfTemplate]:
    asked = grouped((key, (outcome, own)) for outcome in outcomes for key, own in _by_template(outcome).items())
    return [_line(data, *key, of_models) for key, of_models in sorted(asked.items(), key=itemgetter(0))]


def _by_template(outcome: Outcome) -> dict[tuple[str, int], list[int]]:
    """Places of the scored predictions of each relation and template."""
    rows, relations = outcome.rows, outcome.rows.relation_of()
    places = outcome.places[rows.scored[outcome.places]].tolist()
    return grouped(((relations[place], int(rows.template[place])), place) for place in places)


def _line(data: str, relation: str, template: int, asked: Sequence[tuple[Outcome, list[int]]]) -> OfTemplate:
    """:param asked: each model with the places of its prompts."""
    hits = [np.stack([outcome.rows.hits(k)[places] for k in CUTS]) for outcome, places in asked]
    recipes = [f"{recipe(one.rows, '', one.scoring, (template,))}|relation:{relation}" for one, _ in asked]
    prompt, subject = asked[0][0].rows.asked(asked[0][1][0])
    return OfTemplate(
        data,
        relation,
        template,
        prompt.replace(subject, "[X]") if subject else prompt,
        len(asked),
        sum(each.shape[1] for each in hits),
        tuple(
            _number(asked, [each[place] for each in hits], combined(name, recipes, " and "))
            for place, name in enumerate(ACCURACIES)
        ),
        float(np.std([each[0].mean() for each in hits], ddof=1)) if len(hits) > 1 else float("nan"),
    )


def _number(asked: Sequence[tuple[Outcome, list[int]]], of_models: Sequence[Floats], made: str) -> Number:
    """:param of_models: hits of each model's prompts."""
    if len(asked) == 1:
        [(outcome, places)] = asked
        return mean(of_models[0], outcome.rows.sample(outcome.rows.query[places].tolist()), made)
    return untold(OVER_MODELS, made, float(np.mean([each.mean() for each in of_models])), len(of_models))


def tables(found: Sequence[OfTemplate]) -> list[Table]:
    """One."""
    ends = {name: (f"low@{k}", f"high@{k}") for name, k in zip(ACCURACIES, CUTS, strict=True)}
    note = "Acc@k: mean over models of each model's mean; deviation: of Acc@1, sample standard deviation over models"
    return [
        Table.of_numbers(
            ("data", "relation", "template", "wording", "models", "prompts", *ACCURACIES, "deviation"),
            [(*line[:6], *line.hits, line.deviation) for line in found],
            "accuracy by template",
            ends,
            dict.fromkeys((*ACCURACIES, "deviation"), ".1%"),
            (note,),
            [end for pair in ends.values() for end in pair],
        )
    ]
