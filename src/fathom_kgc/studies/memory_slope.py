"""Does a link predictor gain where its language model knew the fact? Memory per fact, as a slope.

Knowledge is the language model's 1 / rank of a fact *before* training on the graph, by any probe that ranks; gain is
the difference in 1 / rank between predictors from pre-trained and from random weights. The slope of gain on knowledge
is memory; the gain at no knowledge is not. Easy facts are known, and gained, by every model, so the conclusion needs a
control: a language model of the same kind that the predictor was *not* made of. If one latent ease explains knowledge
of both, gain and random weights, the tetrad difference vanishes (:func:`fathom.results.metrics.correlation.tetrad`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.results.claims import UNDETERMINED, Claim, Contrast, Decision, decide
from fathom.results.estimates import Estimate, combined, difference, intercept, mean, slope, tetrad
from fathom.results.facts import RunFacts, common_facts
from fathom.results.loading import read_facts, short_names
from fathom.results.metrics.correlation import subtract_means
from fathom.results.rows import Floats
from fathom.results.samples import Sample
from fathom.results.tables import Cell, Plot, Table
from fathom.store.folder import RunFolder
from fathom.studies.options import RunsOptions

CLASSES = ("known (rank 1)", "rank 2 to 10", "rank beyond 10")
PER_FACT, WITHIN, EASE = (
    "gain on knowledge",
    "gain on knowledge, within relations",
    "control: 1 / rank of the random on knowledge",
)
BEYOND = "gain on knowledge, beyond the control's (tetrad difference)"
NO_CONTROL = "no control: give as a fourth run the same probe of another language model"
UNKNOWN, ALL = "gain where nothing is known", "mean gain"
_NOTES = (
    "knowledge: 1 / rank of the fact before training; gain: 1 / rank by the predictor from pre-trained weights − by "
    "that from random ones; slopes: of one more of knowledge, from never named to always first",
    f"{PER_FACT}: above 0, the weights help more with what the model knew: memory; {WITHIN}: so, too, among facts of "
    "one relation, which are about as hard",
    f"{EASE}: above 0, what the model knew is easier without it, too",
    f"{BEYOND}: 0 if one latent ease explains knowledge, gain and the control",
    f"{UNKNOWN}: what the weights are worth without memory, if the line is straight",
)


class MemorySlope(NamedTuple):
    """Findings of the study.

    :param parts: rows of mean 1 / rank and gain of the facts in each of :data:`CLASSES`.
    """

    effects: dict[str, Estimate]
    parts: list[dict[str, Cell | Estimate]]
    points: list[tuple[str, float, float]]
    left_out: int
    decision: Decision


def conclude(findings: MemorySlope) -> list[str]:
    if findings.decision.holds:
        return [
            "The predictor remembers: it gains where its own language model knew the fact, beyond what ease explains."
        ]
    decision = findings.decision
    if decision.word == UNDETERMINED:
        return [f"Whether the predictor remembers {UNDETERMINED}: {decision.reason}."]
    return [f"The predictor is not shown to remember: {decision.word} ({decision.reason})."]


def analyse(runs: Sequence[RunFolder], options: RunsOptions = RunsOptions()) -> MemorySlope:
    """Analyse three or four runs.

    :param runs: a probe of the language model before training; ``fathom kgc evaluate`` of the predictor from
        pre-trained, then from random weights; and for a conclusion, the same probe of a control model.
    :raises BadInput: other runs, of other data, or without shared facts.
    """
    if len(runs) not in (3, 4):
        raise BadInput(
            "expected three runs or four: a probe of the language model on the graph (fathom probe statement), fathom "
            "kgc evaluate of the predictor from its weights and from random ones, and as a control the same probe of "
            f"another language model; found {len(runs)}"
        )
    scorings = (options.scoring, (), (), options.scoring)[: len(runs)]
    outcomes = [
        read_facts(run, scoring, name, options.cluster)
        for run, scoring, name in zip(runs, scorings, short_names(runs), strict=True)
    ]
    refuse(_faults(outcomes))
    common_facts(outcomes[1:3])
    facts = common_facts(outcomes, same_candidates=False)
    values = [run.per_fact(run.rows.reciprocal())[run.at(facts)] for run in outcomes]
    refuse(
        f"{run.path}: some ranks are only known to lie beyond a bound, where its search stopped: expected all"
        for run, reciprocals in zip(outcomes, values, strict=True)
        if np.isnan(reciprocals).any()
    )
    return _slopes(outcomes, facts, values, len({fact for run in outcomes for fact in run.facts}) - len(facts))


def _faults(outcomes: Sequence[RunFacts]) -> list[str]:
    first, *others = outcomes
    graph = first.rows.identity["data"]["content_hash"]
    faults = [f"{run.path}: expected a run of fathom kgc evaluate" for run in others[:2] if not _by_predictor(run)]
    faults += [
        f"{run.path}: expected a probe of a language model" for run in (first, *others[2:]) if _by_predictor(run)
    ]
    faults += [
        f"{run.path}: the control is the same model as that of {first.path}: expected another"
        for run in others[2:]
        if run.content_hash == first.content_hash
    ]
    return faults or [
        f"{run.path} asked other data than {first.path}"
        for run in others
        if run.rows.identity["data"]["content_hash"] != graph
    ]


def _by_predictor(run: RunFacts) -> bool:
    return "asking" in run.rows.identity.get("resolved", {})


def _slopes(outcomes: Sequence[RunFacts], facts: Sequence[str], values: Sequence[Floats], left_out: int) -> MemorySlope:
    known, pretrained, random = values[:3]
    gain, sample = pretrained - random, outcomes[0].sample(facts)

    def recipe(name: str, runs: Sequence[RunFacts] = outcomes) -> str:
        return combined(name, [run.recipe("") for run in runs])

    _, relation = np.unique(outcomes[0].relations_of(facts), return_inverse=True)
    known_within, gain_within = subtract_means(known, relation), subtract_means(gain, relation)
    effects = {
        PER_FACT: slope(known, gain, sample, recipe("slope of gain")),
        WITHIN: slope(known_within, gain_within, sample, recipe("slope of gain within relations")),
        EASE: slope(known, random, sample, recipe("slope of 1 / rank", (outcomes[0], outcomes[2]))),
        UNKNOWN: intercept(known, gain, sample, recipe("gain at no knowledge")),
        ALL: difference(pretrained, random, sample, recipe("gain", outcomes[1:3]), form="+.3f"),
    }
    contrasts = [Contrast(PER_FACT, effects[PER_FACT], 1), Contrast(BEYOND, None, 1, NO_CONTROL)]
    if len(values) > 3:
        effects[BEYOND] = tetrad(gain, known, values[3], random, sample, recipe("tetrad"))
        contrasts[1] = Contrast(BEYOND, effects[BEYOND], 1)
    claim = Claim("the predictor remembers", tuple(contrasts))
    decision = decide({claim.name: claim})[claim.name]
    classes = zip(CLASSES, (known == 1, (known < 1) & (known >= 0.1), known < 0.1), strict=True)
    parts = [
        _part(name, outcomes[1:3], pretrained[those], random[those], sample.only(those)) for name, those in classes
    ]
    return MemorySlope(effects, parts, list(zip(facts, known.tolist(), gain.tolist(), strict=True)), left_out, decision)


def _part(
    name: str, links: Sequence[RunFacts], pretrained: Floats, random: Floats, sample: Sample
) -> dict[str, Cell | Estimate]:
    gain = f"{combined('gain', [run.recipe('') for run in links])}|{name}"
    return {
        "known before": name,
        "pre-trained": mean(pretrained, sample, f"{links[0].recipe('mrr')}|{name}", form=".3f"),
        "random": mean(random, sample, f"{links[1].recipe('mrr')}|{name}", form=".3f"),
        "gain": difference(pretrained, random, sample, gain, form="+.3f"),
        "facts": len(pretrained),
    }


def tables(findings: MemorySlope) -> list[Table]:
    left_out = [f"{findings.left_out} facts that one of the runs did not score are left out"]
    count = len(findings.points)
    slopes = [{"what": name, "value": effect, "facts": count} for name, effect in findings.effects.items()]
    parts_note = ["mean 1 / rank of the facts, and their paired difference"]
    return [
        Table.of(slopes, "memory per fact", [*_NOTES, *(left_out if findings.left_out else ())]),
        Table.of(findings.parts, "gain by what was known", parts_note, main="gain", inline=True),
    ]


def files(findings: MemorySlope) -> dict[str, Table]:
    return {"memory-slope-facts": Table(("fact", "knowledge", "gain"), tuple(findings.points), "facts")}


def plots(findings: MemorySlope) -> list[Plot]:
    start, rise = findings.effects[UNKNOWN].value, findings.effects[PER_FACT].value

    def draw(axes: Any) -> None:
        axes.scatter([x for _, x, _ in findings.points], [y for *_, y in findings.points], s=6, alpha=0.4)
        if not np.isnan(rise):
            axes.plot([0, 1], [start, start + rise], color="black", linewidth=1)
        axes.axhline(0, color="grey", linewidth=0.8)

    return [Plot("memory-slope", draw, "1 / rank before training", "gain in 1 / rank", "memory per fact")]
