"""Does a link predictor gain where its language model knew the fact? Memory per fact, as a slope.

Pre-trained weights may help in two ways: the model read the fact, or it writes and compares names better. The first
helps with facts that it knew, the second with all alike. So what the language model knows of each fact *before* it is
trained on the graph (1 / rank, by any probe that ranks) is laid beside what pre-trained weights gain over random ones
on that fact (1 / rank by the one predictor − by the other). The slope of the gain on the knowledge is memory; what is
gained where nothing is known is not.

Easy facts are known, and gained, by every model. So memory is concluded only with a control: a language model of the
same kind that the predictor was *not* made of. If one latent ease explains what both models know, what is gained and
what random weights reach, the tetrad difference vanishes (:func:`fathom.metrics.correlation.tetrad`). Regressing on
knowledge at equal rank of the random predictor does not control for ease, as that rank measures it with error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.errors import BadInput, refuse
from fathom.results.agreements import less_their_means
from fathom.results.claims import Claim, Contrast, Decision, decide
from fathom.results.estimates import Estimate, difference, intercept, mean, slope, tetrad
from fathom.results.facts import RunFacts
from fathom.results.loading import outcome_of
from fathom.results.names import short_names
from fathom.results.pairing import common_facts
from fathom.results.plots import Plot
from fathom.results.recipes import combined
from fathom.results.rows import Floats
from fathom.results.samples import Sample
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

CLASSES = ("known (rank 1)", "rank 2 to 10", "rank beyond 10")
PER_FACT, WITHIN, EASE = (
    "gain on knowledge",
    "gain on knowledge, within relations",
    "control: 1 / rank of the random on knowledge",
)
BEYOND = "gain on knowledge, beyond the control's (tetrad difference)"
NO_CONTROL = "no control: give as a fourth run the same probe of another language model"
FEWEST_RUNS = ("language model", "pre-trained", "random")
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


class Line(NamedTuple):
    """:param of: a slope, or a mean."""

    of: str
    value: Estimate
    facts: int


class Part(NamedTuple):
    """Facts that were known alike.

    :param known: one of :data:`CLASSES`.
    :param pretrained: mean 1 / rank; likewise *random*, and *gain* the paired difference.
    """

    known: str
    pretrained: Estimate
    random: Estimate
    gain: Estimate
    facts: int


class MemorySlope(NamedTuple):
    """What the study found.

    :param points: fact, knowledge and gain.
    :param left_out: facts that one of the runs did not score.
    """

    lines: list[Line]
    parts: list[Part]
    points: list[tuple[str, float, float]]
    left_out: int
    decision: Decision


def conclude(findings: MemorySlope) -> list[str]:
    """Whether the predictor remembers."""
    if findings.decision.holds:
        return [
            "The predictor remembers: it gains where its own language model knew the fact, beyond what ease explains."
        ]
    return [f"Whether the predictor remembers: {findings.decision.word} ({findings.decision.reason})."]


def analyse(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> MemorySlope:
    """:param runs: a probe's of the language model before training, then ``fathom kgc evaluate``'s of the predictor
        from pre-trained and from random weights; as a fourth, for a conclusion, the same probe of a control: another
        language model, of which the predictor was not made.
    :param scoring: of the probes' runs, where they have several.
    :raises BadInput: other runs, of other data, or without a fact in common."""
    if len(runs) not in (3, 4):
        raise BadInput(
            "expected three runs or four: a probe of the language model on the graph (fathom probe statement), fathom "
            "kgc evaluate of the predictor from its weights and from random ones, and as a control the same probe of "
            f"another language model; found {len(runs)}"
        )
    names, scorings = short_names(runs), (scoring, (), (), scoring)
    asked = [outcome_of(run, own, name, cluster) for run, own, name in zip(runs, scorings, names, strict=False)]
    refuse(_faults(asked))
    common_facts(asked[1:3])
    facts = common_facts(asked, same_candidates=False)
    values = [one.per_fact(one.rows.reciprocal())[one.at(facts)] for one in asked]
    refuse(
        f"{one.path}: some ranks are only known to lie beyond a bound, where its search stopped: expected all"
        for one, own in zip(asked, values, strict=True)
        if np.isnan(own).any()
    )
    every = {fact for one in asked for fact in one.facts}
    return _found(asked, facts, values, len(every) - len(facts))


def _faults(asked: Sequence[RunFacts]) -> list[str]:
    """What of the three runs does not fit."""
    first, *others = asked
    graph = first.rows.identity["data"]["content_hash"]
    faults = [f"{one.path}: expected a run of fathom kgc evaluate" for one in others[:2] if not _by_predictor(one)]
    faults += [
        f"{one.path}: expected a probe of a language model" for one in (first, *others[2:]) if _by_predictor(one)
    ]
    faults += [
        f"{one.path}: the control is the same model as that of {first.path}: expected another"
        for one in others[2:]
        if one.content_hash == first.content_hash
    ]
    return faults or [
        f"{one.path} asked other data than {first.path}"
        for one in others
        if one.rows.identity["data"]["content_hash"] != graph
    ]


def _by_predictor(one: RunFacts) -> bool:
    """Whether heads and tails of all entities were ranked by what a graph trained."""
    return "asking" in one.rows.identity.get("resolved", {})


def _found(asked: Sequence[RunFacts], facts: Sequence[str], values: Sequence[Floats], left_out: int) -> MemorySlope:
    known, pretrained, random = values[:3]
    gain, sample = pretrained - random, asked[0].sample(facts)

    def made(name: str, of: Sequence[RunFacts] = asked) -> str:
        return combined(name, [one.recipe("") for one in of])

    known_within, gain_within = less_their_means(asked[0].relations_of(facts), (known, gain))
    lines = [
        (PER_FACT, slope(known, gain, sample, made("slope of gain"))),
        (WITHIN, slope(known_within, gain_within, sample, made("slope of gain within relations"))),
        (EASE, slope(known, random, sample, made("slope of 1 / rank", (asked[0], asked[2])))),
        (UNKNOWN, intercept(known, gain, sample, made("gain at no knowledge"))),
        (ALL, difference(pretrained, random, sample, made("gain", asked[1:3]), form="+.3f")),
    ]
    contrasts = [Contrast(PER_FACT, lines[0][1], 1), Contrast(BEYOND, None, 1, NO_CONTROL)]
    if len(values) > len(FEWEST_RUNS):
        beyond = tetrad(gain, known, values[3], random, sample, made("tetrad"))
        lines.append((BEYOND, beyond))
        contrasts[1] = Contrast(BEYOND, beyond, 1)
    [decision] = decide([Claim("the predictor remembers", tuple(contrasts))])
    classes = zip(CLASSES, (known == 1, (known < 1) & (known >= 0.1), known < 0.1), strict=True)
    parts = [_part(name, asked[1:3], pretrained[those], random[those], sample.only(those)) for name, those in classes]
    points = list(zip(facts, known.tolist(), gain.tolist(), strict=True))
    return MemorySlope([Line(name, number, len(facts)) for name, number in lines], parts, points, left_out, decision)


def _part(name: str, links: Sequence[RunFacts], pretrained: Floats, random: Floats, sample: Sample) -> Part:
    with_it, without = (f"{one.recipe('mrr')}|{name}" for one in links)
    made = f"{combined('gain', [one.recipe('') for one in links])}|{name}"
    return Part(
        name,
        mean(pretrained, sample, with_it, form=".3f"),
        mean(random, sample, without, form=".3f"),
        difference(pretrained, random, sample, made, form="+.3f"),
        len(pretrained),
    )


def tables(findings: MemorySlope) -> list[Table]:
    """The slopes with their controls, and the gain by what was known."""
    notes = [
        *_NOTES,
        *([f"{findings.left_out} facts that one of the runs did not score are left out"] * bool(findings.left_out)),
    ]
    slopes = [{"what": line.of, "value": line.value, "facts": line.facts} for line in findings.lines]
    parts = [
        {
            "known before": part.known,
            "pre-trained": part.pretrained,
            "random": part.random,
            "gain": part.gain,
            "facts": part.facts,
        }
        for part in findings.parts
    ]
    of_parts = ["mean 1 / rank of the facts, and their paired difference"]
    return [
        Table.of(slopes, "memory per fact", notes),
        Table.of(parts, "gain by what was known", of_parts, main="gain", inline=True),
    ]


def files(findings: MemorySlope) -> dict[str, Table]:
    """Knowledge and gain of every fact."""
    return {"memory-slope-facts": Table(("fact", "knowledge", "gain"), tuple(findings.points), "facts")}


def plots(findings: MemorySlope) -> list[Plot]:
    """Every fact by knowledge and gain, with the line."""
    values = {line.of: line.value.value for line in findings.lines}

    def draw(axes: Any) -> None:
        axes.scatter([x for _, x, _ in findings.points], [y for *_, y in findings.points], s=6, alpha=0.4)
        if not np.isnan(values[PER_FACT]):
            start = values[UNKNOWN]
            axes.plot([0, 1], [start, start + values[PER_FACT]], color="black", linewidth=1)
        axes.axhline(0, color="grey", linewidth=0.8)

    return [Plot("memory-slope", draw, "1 / rank before training", "gain in 1 / rank", "memory per fact")]
