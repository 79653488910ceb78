"""Which templates do models answer at all? Accuracy by relation and template, averaged over models (section 5.2 of
Shaier et al. 2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput
from fathom.results.outcomes import BY_TEMPLATE, Outcome, by_column, outcomes_of
from fathom.store.folder import RunFolder


class OfTemplate(NamedTuple):
    """:param wording: one of its prompts, "[X]" for the subject. :param prompts: scored ones, of all models.
    :param hits: Acc@1, Acc@5, Acc@10, the mean over models of each model's mean. :param deviation: standard deviation
    (n − 1) of Acc@1 over models; NaN for one."""

    data: str
    relation: str
    template: int
    wording: str
    models: int
    prompts: int
    hits: tuple[float, ...]
    deviation: float


def templates(runs: Sequence[RunFolder], scorings: Sequence[str] = ()) -> list[OfTemplate]:
    """In order of data set, relation and template. :raises BadInput: no run was asked by templates."""
    columns = by_column(outcomes_of(runs, scorings))
    chosen = {data: models for (data, reading), models in columns.items() if reading == BY_TEMPLATE}
    if not chosen:
        raise BadInput("none of these runs was asked by templates: ask with --reading template-based")
    return [line for data, models in chosen.items() for line in _lines(data, list(models.values()))]


def _lines(data: str, outcomes: Sequence[Outcome]) -> list[OfTemplate]:
    means: dict[tuple[str, int], list[np.typing.NDArray[np.float64]]] = {}
    prompts: dict[tuple[str, int], int] = {}
    wordings: dict[tuple[str, int], str] = {}
    for outcome in outcomes:
        scored = ~np.isnan(outcome.hits).any(axis=1)
        for relation, template in sorted(set(zip(outcome.relations.tolist(), outcome.templates.tolist(), strict=True))):
            own = scored & (outcome.relations == relation) & (outcome.templates == template)
            if not own.any():
                continue
            key = (relation, template)
            means.setdefault(key, []).append(outcome.hits[own].mean(axis=0))
            prompts[key] = prompts.get(key, 0) + int(own.sum())
            wordings.setdefault(key, _wording(outcome, int(np.flatnonzero(own)[0])))
    return [
        OfTemplate(
            data,
            *key,
            wordings[key],
            len(found),
            prompts[key],
            tuple(np.mean(found, axis=0).tolist()),
            float(np.std([hits[0] for hits in found], ddof=1)) if len(found) > 1 else float("nan"),
        )
        for key, found in sorted(means.items())
    ]


def _wording(outcome: Outcome, place: int) -> str:
    prompt, subject = (outcome.table.column(name)[place].as_py() or "" for name in ("prompt", "subject"))
    return prompt.replace(subject, "[X]") if subject else prompt
