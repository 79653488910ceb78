"""Efficacy, paraphrase success and specificity of model edits, as in Meng et al. (ROME 2022, MEMIT 2023).

An edit gives a fact a new answer. Queries name their edit in the group ``edit``, and in ``prompt`` whether they have
the edited prompt, a paraphrase of it, or a prompt on a neighbouring subject. Their candidates are the true answer,
which is gold, and the new one, so ranks say which of the two scores higher; a tie counts half. Where a model writes
its answers, the written one counts. CounterFact and zsRE are read like this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fathom.results import estimates
from fathom.results.claims import percent
from fathom.results.estimates import Estimate
from fathom.results.facts import WRITTEN, RunFacts
from fathom.results.recipes import combined
from fathom.results.rows import Floats, Rows, alike_reasons
from fathom.results.samples import Sample
from fathom.results.tables import Table

PROMPT, EDIT = "prompt", "edit"
EFFICACY, PARAPHRASED, SPECIFICITY = "efficacy", "paraphrase success", "specificity"
KINDS = {EFFICACY: "target", PARAPHRASED: "paraphrase", SPECIFICITY: "neighbourhood"}
"""Measure → the kind of prompt that it is of."""


class EditMeasure(NamedTuple):
    """One measure of the edits that both runs scored; the value of an edit is the mean over its prompts.

    :param edits: number of edits; *prompts* of their queries of this kind.
    :param unscored: number of facts by the reason why they are excluded.
    """

    name: str
    edits: int
    prompts: int
    before: Estimate
    after: Estimate
    difference: Estimate
    unscored: Mapping[str, int]
    written: bool


def edit_measures(before: RunFacts, after: RunFacts) -> list[EditMeasure]:
    """Return the measures whose prompts both runs have; none if queries name no edits."""
    if any(key not in side.rows.keys for side in (before, after) for key in (PROMPT, EDIT)):
        return []
    first, second = before.parts(PROMPT), after.parts(PROMPT)
    return [
        _measure(name, first[kind], second[kind]) for name, kind in KINDS.items() if kind in first and kind in second
    ]


def _measure(name: str, before: RunFacts, after: RunFacts) -> EditMeasure:
    unscored = _unscored(before, after)
    facts = [fact for fact in after.facts if fact not in unscored]
    old, new = (_successes(side, name)[side.at(facts)] for side in (before, after))
    places = after.at(facts)
    labels = [after.rows.text_of(after.queries[place], EDIT) for place in places.tolist()]
    sizes = Counter(labels)
    weights = np.array([1 / sizes[label] for label in labels])
    sample = after.sample(facts) if after.cluster else Sample(EDIT, [str(label) for label in labels]).numbered()
    recipes = [f"{side.recipe(name)}|weights:1 / facts of the edit" for side in (before, after)]
    return EditMeasure(
        name,
        len(sizes),
        len(np.unique(after.rows.query[after.places[np.isin(after.fact_of, places)]])),
        estimates.mean(old, sample, recipes[0], weights=weights),
        estimates.mean(new, sample, recipes[1], weights=weights),
        estimates.difference(new, old, sample, combined(name, recipes[::-1]), weights=weights),
        Counter(unscored.values()),
        after.why_undefined == WRITTEN,
    )


def _unscored(before: RunFacts, after: RunFacts) -> dict[str, str]:
    """Return the facts to exclude, each with its reason."""
    reasons = dict.fromkeys({*before.facts} ^ {*after.facts}, "only one of the runs has them")
    for side in (after, before):
        for fact, query in zip(side.facts, side.queries, strict=True):
            if new_answer(side.rows, query) is None:
                reasons.setdefault(fact, "their candidates are not the true and one new answer")
            elif side.rows.text_of(query, EDIT) is None:
                reasons.setdefault(fact, "they name no edit")
        reasons = side.left_out | reasons
    return reasons


def new_answer(rows: Rows, query: int) -> str | None:
    """Return the only candidate that is no right answer; None if there are none or several."""
    right = {*rows.gold[query], *(rows.known[query] or ())}
    ids: Sequence[str] = rows.candidates.get(rows.spaces[query] or "", ((), ()))[0]
    others = [id_ for id_ in ids if id_ not in right] if len(ids) <= len(right) + 1 else []
    return others[0] if len(others) == 1 else None


def _successes(side: RunFacts, name: str) -> Floats:
    """Return the share of each fact's prompts at which the edit succeeds, shape (facts); NaN where unscored."""
    rows, true_wanted = side.rows, name == SPECIFICITY
    if side.why_undefined != WRITTEN:
        hits = rows.hits(1)
        return side.per_fact(hits if true_wanted else 1 - hits)
    values = np.full(len(rows.query), np.nan)
    answers = rows.table.column("answer_ids").take(side.places).to_pylist()
    for place, query, written in zip(side.places.tolist(), rows.query[side.places].tolist(), answers, strict=True):
        wanted = rows.gold[query] if true_wanted else [new_answer(rows, query)]
        values[place] = float(any(id_ in wanted for id_ in written or () if id_ is not None))
    return side.per_fact(values)


def edits_sentence(measures: Sequence[EditMeasure]) -> str:
    """Return "Edits: efficacy 98.0 %, specificity 71.5 %."; "" if nothing was scored."""
    values = [f"{one.name} {percent(one.after.value)}" for one in measures if one.edits]
    return f"Edits: {', '.join(values)}." if values else ""


def edits_table(measures: Sequence[EditMeasure]) -> Table:
    columns = EditMeasure._fields[1:6]
    rows = [{"measure": one.name, **{column: getattr(one, column) for column in columns}} for one in measures]
    does = "is written" if any(one.written for one in measures) else "scores higher; a tie counts half"
    notes = [
        "efficacy and paraphrase success: share of edits whose new answer, specificity: whose neighbours' true answer "
        f"{does}; the mean over an edit's prompts, then over edits"
    ]
    notes += [
        f"{one.name}: {count:,} facts excluded: {reason}"
        for one in measures
        for reason, count in alike_reasons(one.unscored)
    ]
    return Table.of(rows, "edits", notes, main="after", hidden=("difference p",))
