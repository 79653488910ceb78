"""Which probe tells facts that a model has read from facts that it has not, and how wrong can it be?

For planted models, whose knowledge is known (``fathom plant``); see :mod:`fathom.studies.validity_estimates`. Published
claims about probes can be tested as well: that one scoring separates better than another (``higher``), that one has no
length bias where another has (``unbiased``), or that two probes agree more in larger models (``agree``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results import estimates
from fathom.results.claims import (
    OPPOSITE,
    SIGNIFICANT,
    UNDETERMINED,
    Claim,
    Contrast,
    Decision,
    decide,
    difference_in_words,
    percent,
)
from fathom.results.design import design_of
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts
from fathom.results.metrics.correlation import subtract_means
from fathom.results.metrics.significance import POWER
from fathom.results.names import distinguished, short_names
from fathom.results.recipes import MINUS, combined
from fathom.results.rows import Floats, Rows, grouped
from fathom.results.saving import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ValidityOptions
from fathom.studies.validity_estimates import BIASES, PairedPreferences, Probe, ProbeValidity, Row

NO_SUBJECT = "no-subject"
CONTROL, VALID = "control", "valid"
"""Kinds of claims on each probe, in addition to its biases."""
MARGIN = 0.1
"""Largest correlation that counts as none."""
_NOT_BOTH = (Contrast("both probes", None, 1, "this model has no run of both probes"),)
LARGER = "no probe of another model: two models of different sizes are needed"


class Validity(NamedTuple):
    """:param pairs: correlation of the ranks of two probes of a model within relations and exposures.
    :param expected: decisions on the claims to test.
    :param decisions: on each probe, by kind (:data:`CONTROL`, :data:`VALID`, or a bias) and place among the probes.
    :param practised: facts of a run that were practised, or are not in the design.
    :param left_out: probes that scored too few facts, with the reason.
    """

    probes: list[ProbeValidity]
    pairs: list[Row]
    expected: list[Decision]
    decisions: Mapping[tuple[str, int], Decision]
    practised: int
    left_out: list[str]


def analyse(runs: Sequence[RunFolder], options: ValidityOptions = ValidityOptions()) -> Validity:
    """Compare what probes say with what models have read.

    :param runs: of planted models; one with ``--alter no-subject`` gives the prior of another run of the same probe.
    :raises BadInput: a model without a design, a design of other data, too few facts in one of its classes.
    """
    priors = {_probe_and_model(run): run for run in runs if _alteration(run) == NO_SUBJECT}
    asked = [run for run in runs if _alteration(run) != NO_SUBJECT]
    probes: list[Probe] = []
    for run, model in zip(asked, short_names(asked), strict=True):
        rows, known = Rows(run, cluster=options.cluster), design_of(run, options.design)
        prior = Rows(priors[_probe_and_model(run)]) if _probe_and_model(run) in priors else None
        wanted = [name for name in rows.scorings if not options.scoring or name in options.scoring]
        probes += [Probe(RunFacts(run, rows, name, model), known, prior, options.seed) for name in wanted]
    if not probes:
        none = f"no run has --scoring {','.join(options.scoring)}: leave it out"
        raise BadInput(none if options.scoring else "no run to analyse")
    _distinguish(probes)
    left_out = [probe.too_few() for probe in probes if probe.too_few()]
    probes = [probe for probe in probes if not probe.too_few()]
    if not probes:
        raise BadInput([*left_out, "plant more facts, or evaluate more of them (--limit)"])
    claims = _expected_claims(probes, options)
    pairs = [
        {"model": one.facts.model, "probe": one.name, "and": other.name, "Pearson r": one.agreement(other)}
        for one, other in combinations(probes, 2)
        if one.facts.content_hash == other.facts.content_hash and one.facts.path != other.facts.path
    ]
    validities = [probe.validity() for probe in probes]
    family: dict[tuple[str, int], Claim | None] = {("expected", at): claim for at, claim in enumerate(claims)}
    for at, one in enumerate(validities):
        family |= {(kind, at): claim for kind, claim in _claims(one).items()}
    decisions = decide(family)
    expected = [decisions["expected", at] for at in range(len(claims))]
    practised = max(probe.practised for probe in probes)
    return Validity(validities, pairs, expected, decisions, practised, left_out)


def _claims(one: ProbeValidity) -> dict[str, Claim]:
    """Declare what a scoring may show: its control, that it is valid, and its biases."""
    beyond, lacking = one.numbers["over frequency"], "answers without a training frequency"
    frequency = Contrast("AUROC − that of training frequency", beyond, 1, lacking)
    claims = {
        CONTROL: Claim(one.name, (Contrast("AUROC − 0.5 of two halves", one.numbers["halves"]),)),
        VALID: Claim(
            f"{one.name} distinguishes facts read from facts never read",
            (Contrast("AUROC − 0.5", one.above, 1), frequency),
        ),
    }
    for name in BIASES:
        claims[name] = Claim(f"{one.name} {name}", (Contrast("correlation", one.biases[name][0]),))
    return claims


def _distinguish(probes: Sequence[Probe]) -> None:
    """Add to equal names of one model's probes what distinguishes them: the reading or the masking."""
    for own in grouped((probe.facts.model, probe) for probe in probes).values():
        parts = [(one.name, one.facts.reading, str(one.facts.options.get("pll")), one.facts.path) for one in own]
        for probe, name in zip(own, distinguished(parts), strict=True):
            probe.name = name


def _alteration(run: RunFolder) -> str:
    return str(run.manifest["identity"]["options"].get("alter"))


def _probe_and_model(run: RunFolder) -> tuple[str, ...]:
    identity = run.manifest["identity"]
    of_data = str(identity["data"].get("content_hash")), str(identity["options"].get("pll"))
    return str(identity["probe"]), str(identity["model"]["content_hash"]), *of_data


# --- published claims about probes


def _expected_claims(probes: Sequence[Probe], expected: ValidityOptions) -> list[Claim]:
    """Return a claim for each model and each expectation, with what it needs or lacks.

    :raises BadInput: an expectation names a probe that none of the runs has, or is written otherwise.
    """
    claims: list[Claim] = []
    kinds = ((">", expected.higher, _higher), ("unlike", expected.unbiased, _unbiased))
    for model, own in grouped((probe.facts.model, probe) for probe in probes).items():
        named = {probe.name: probe for probe in own}
        for sign, texts, declare in kinds:
            for text in texts:
                one, other = (_find(named, part) for part in _two(text, sign, probes))
                contrasts = declare(one, other) if one and other else _NOT_BOTH
                claims.append(Claim(f"{model}: {text}", contrasts))
    return claims + [_agree(text, *_two(text, "&", probes), probes) for text in expected.agree]


def _two(text: str, sign: str, probes: Sequence[Probe]) -> tuple[str, str]:
    parts = [part.strip() for part in text.split(f" {sign} ")]
    known = list(dict.fromkeys(probe.name for probe in probes))
    if len(parts) != 2:
        raise BadInput(f"'{text}': expected two probes, 'FIRST {sign} SECOND'; the runs have {', '.join(known)}")
    for part in parts:
        if not any(_is_name(part, name) for name in known):
            raise BadInput(f"'{text}': no probe '{part}'; the runs have {', '.join(known)}")
    return parts[0], parts[1]


def _is_name(text: str, name: str) -> bool:
    """Return whether a text is a probe's name, or its first words."""
    return name == text or name.startswith(f"{text} ")


def _find(named: Mapping[str, Probe], text: str) -> Probe | None:
    """Return the probe of this name, or the one whose name begins with it. :raises BadInput: there are several."""
    fit = [text] if text in named else [name for name in named if _is_name(text, name)]
    if len(fit) > 1:
        raise BadInput(f"'{text}' is the beginning of {', '.join(fit)}: give the whole name")
    return named[fit[0]] if fit else None


def _higher(first: Probe, second: Probe) -> tuple[Contrast, ...]:
    """Declare that the first separates what was read from what was not better than the second."""
    return (Contrast("difference of AUROC", first.better(second), 1),)


def _unbiased(first: Probe, second: Probe) -> tuple[Contrast, ...]:
    """Declare that ranks of unread facts depend on the answer's length by the second probe, but not by the first."""
    own, other = (probe.length_bias() for probe in (first, second))
    return (
        Contrast(f"length bias of {second.name}", other, 1 if other.value >= 0 else -1),
        Contrast(f"length bias of {first.name} below {MARGIN}", estimates.against_value(own, MARGIN), -1),
        Contrast(f"length bias of {first.name} above −{MARGIN}", estimates.against_value(own, -MARGIN), 1),
    )


def _agree(text: str, first: str, second: str, probes: Sequence[Probe]) -> Claim:
    """Declare that two probes agree more, at constant truth, in the largest model than in the smallest."""
    by_model = grouped((probe.facts.content_hash, probe) for probe in probes)
    found = [
        (_find(named, first), _find(named, second))
        for named in ({probe.name: probe for probe in own} for own in by_model.values())
    ]
    pairs = [(one, other) for one, other in found if one and other and one.facts.parameters is not None]
    pairs.sort(key=lambda own: own[0].facts.parameters or 0)
    if len(pairs) < 2 or pairs[0][0].facts.parameters == pairs[-1][0].facts.parameters:
        return Claim(text, (Contrast("agreement", None, 1, LARGER),))
    return Claim(text, (Contrast("difference of agreement", _gain(pairs[-1], pairs[0]), 1),))


def _gain(large: Sequence[Probe], small: Sequence[Probe]) -> Estimate:
    """Return the correlation of the ranks in the large model − that in the small one, paired by fact."""
    (one, other), (its, others) = large, small
    columns = [pair[0].paired_with(pair[1]) for pair in ((one, other), (its, others))]
    common = [fact for fact in columns[0].facts if fact in set(columns[1].facts)]
    products = [_products(both, one.facts.relations_of(both.facts), common) for both in columns]
    recipe = combined("agreement at constant truth", [side.facts.recipe("") for side in (one, its)], MINUS)
    return estimates.difference(products[0], products[1], one.facts.sample(common), recipe, (-2.0, 2.0), "+.3f")


def _products(both: PairedPreferences, relations: Sequence[str], facts: Sequence[str]) -> Floats:
    """Return, for each fact, the correlation of the ranks plus the fact's influence on it; the mean is the correlation.

    The influence of a fact with standardised values x and y is xy − r (x² + y²) / 2, so that the spread of these values
    is that of the correlation's estimate.
    """
    _, cell = np.unique(both.cells(relations), return_inverse=True)
    within = (subtract_means(side, cell) for side in (both.first, both.second))
    first, second = (side / (float(np.sqrt((side**2).mean())) or 1.0) for side in within)
    r = float((first * second).mean())
    influence = r + first * second - r * (first**2 + second**2) / 2
    value = dict(zip(both.facts, influence.tolist(), strict=True))
    return np.array([value[fact] for fact in facts])


# --- in words


def conclude(findings: Validity) -> list[str]:
    places = enumerate(findings.probes)
    by_model = grouped((probe.model, place) for place, probe in places)
    concluded = []
    for model, own in by_model.items():
        concluded += _of_model(model, own, findings)
    return concluded + [_verdict(decision) for decision in findings.expected]


def _verdict(decision: Decision) -> str:
    """Return "CLAIM: confirmed, VALUE."."""
    if decision.word == UNDETERMINED:
        return f"{decision.claim.name}: not testable here ({decision.reason})."
    value = difference_in_words(decision, is_share=False)
    word = {SIGNIFICANT: "confirmed", OPPOSITE: "refuted"}.get(decision.word, "not confirmed")
    reason = f" ({decision.reason})" if decision.reason and not decision.holds else ""
    return f"{decision.claim.name}: {word}, {value}{reason}."


def _of_model(model: str, places: Sequence[int], findings: Validity) -> list[str]:
    """Return three to six sentences. :param places: of the model's probes."""
    decisions = findings.decisions
    probes = {place: findings.probes[place] for place in places}
    failed = [place for place in places if decisions[CONTROL, place].holds]
    names = ", ".join(probes[place].name for place in failed)
    concluded = []
    if failed:
        concluded.append(
            f"{model}: control failed for {names}, whose AUROC shows nothing: two halves of the facts never read "
            "differ as well."
        )
    sound = [one for place, one in probes.items() if decisions[VALID, place].holds and place not in failed]
    if not sound:
        return concluded or [_none_is_valid(model, [decisions[VALID, place] for place in places])]
    best = max(sound, key=lambda one: one.numbers["AUROC"].value)
    read, chance, fastest = best.levels[-1]["exposures"], best.numbers["chance"], min(sound, key=_seconds)
    concluded += [
        f"{model}: {best.name} is the best of {len(probes)} scorings: a fact read {read} times ranks better "
        f"than one never read in {best.numbers['AUROC'].shown('.1%')} of pairs.",
        f"How wrong it can be: it has {percent(best.numbers['never read'].value)} of the facts never read right"
        f"{'' if chance is None else f' (chance {percent(chance)})'}, and misses "
        f"{percent(1 - best.numbers['read'].value)} of those read {read} times.",
    ]
    if others := [f"{one.name} {one.numbers['AUROC'].value:.2f}" for one in probes.values() if one is not best]:
        concluded.append(f"AUROC of the others: {', '.join(others)}.")
    concluded += _of_biases(probes, decisions)
    concluded.append(f"The cheapest of these is {fastest.name}: {_seconds(fastest):.1f} s per 1,000 facts.")
    return concluded


def _none_is_valid(model: str, decisions: Sequence[Decision]) -> str:
    text = f"{model}: no probe significantly distinguishes facts that it has read from facts that it has not"
    smallest = _largest_smallest(decisions)
    return f"{text}{f'; an AUROC of {0.5 + smallest:.2f} would have been found' if smallest else ''}."


def _largest_smallest(decisions: Sequence[Decision]) -> float | None:
    """Return the effect that each of the tests finds in 80 % of cases; None if unknown of all."""
    return max((one.smallest for one in decisions if one.smallest is not None), default=None)


def _seconds(one: ProbeValidity) -> float:
    return float(one.numbers["s per 1,000"])


def _of_biases(probes: Mapping[int, ProbeValidity], decisions: Mapping[tuple[str, int], Decision]) -> list[str]:
    """Return a sentence on the probes whose ranks of facts never read depend on a property of the answer."""
    favours = {"length": ("short", "long"), "frequency": ("rare", "frequent"), "position": ("early", "late")}
    tested = {(name, place): decisions[name, place] for name in BIASES for place in probes}
    by_kind = grouped(
        (
            f"{favours[name][0 if decision.sign > 0 else 1]} answers",
            f"{probes[place].name} ({probes[place].biases[name][0].value:+.2f})",
        )
        for (name, place), decision in tested.items()
        if decision.holds
    )
    if not by_kind:
        smallest = _largest_smallest(list(tested.values()))
        text = "No scoring significantly favours answers by length, frequency or position"
        found = f"; a correlation of {smallest:.2f} would have been found in {POWER:.0%} of cases" if smallest else ""
        return [f"{text}{found}."]
    listed = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in by_kind.items())
    return [f"Among facts never read, these favour {listed}."]


# --- tables and plots


def tables(findings: Validity) -> list[Table]:
    notes = [
        "AUROC: how often a fact read most often is preferred to one never read; 0.5 is chance",
        "halves: AUROC − 0.5 of two random halves of the facts never read, the control",
        "over frequency: AUROC − that of the answers' training frequency alone, to which a fact's own statements add",
    ]
    if findings.practised:
        notes.append(f"{findings.practised} facts that were practised, or are not in the design, are excluded")
    notes += findings.left_out
    biases = [(one.model, one.name, name, *one.biases[name]) for one in findings.probes for name in BIASES]
    corrections = [
        (one.model, one.name, name, number) for one in findings.probes for name, number in one.corrections.items()
    ]
    made = [
        Table.of(
            [{"model": one.model, "probe": one.name} | one.numbers for one in findings.probes],
            "validity of probes",
            notes,
            main="AUROC",
            hidden=["by score p", "halves p", "over frequency p"],
            formats={"chance": ".1%", "s per 1,000": ".1f"},
        ),
        Table.of(
            [{"model": one.model, "probe": one.name} | level for one in findings.probes for level in one.levels],
            "by exposures",
            main="accuracy",
            inline=True,
        ),
        Table.of(
            biases,
            "correlation of rank and a property of the answer, within relations",
            ("positive: the probe favours short, rare or early answers",),
            columns=("model", "probe", "property", "never read", "read"),
            main="never read",
            inline=True,
        ),
    ]
    if corrections:
        title = "change of AUROC when a prior of the answers is subtracted"
        made.append(Table.of(corrections, title, columns=("model", "probe", "prior of", "change"), main="change"))
    if findings.pairs:
        title = "agreement of probes among facts read equally often: correlation of log10 ranks"
        made.append(Table.of(findings.pairs, title, main="Pearson r"))
    return made


def plots(findings: Validity) -> list[Plot]:
    by_model = grouped((one.model, one) for one in findings.probes)
    return [
        Plot(f"validity-{number}", partial(_draw, probes), "exposures", "Acc@1", model)
        for number, (model, probes) in enumerate(by_model.items())
    ]


def _draw(probes: Sequence[ProbeValidity], axes: Any) -> None:
    for one in probes:
        xs = [level["exposures"] for level in one.levels]
        axes.plot(xs, [level["accuracy"].value for level in one.levels], marker="o", markersize=3, label=one.name)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(sorted({level["exposures"] for one in probes for level in one.levels}))
    axes.legend(fontsize=6)
