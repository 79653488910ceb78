"""Which probe tells facts that a model has read from facts that it has not, and how wrong can it be?

For planted models, whose knowledge is known (``fathom plant``); see :mod:`fathom.studies.validity_estimates`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from fathom.base.errors import BadInput
from fathom.results.claims import (
    Claim,
    Contrast,
    Decision,
    decide,
    percent,
)
from fathom.results.design import design_of
from fathom.results.facts import RunFacts
from fathom.results.metrics.significance import POWER
from fathom.results.names import distinguished, short_names
from fathom.results.rows import Rows, grouped
from fathom.results.saving import Plot
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ValidityOptions
from fathom.studies.validity_estimates import BIASES, Probe, ProbeValidity, Row

NO_SUBJECT = "no-subject"
CONTROL, VALID = "control", "valid"
"""Kinds of claims on each probe, in addition to its biases."""


class Validity(NamedTuple):
    """:param pairs: correlation of the ranks of two probes of a model within relations and exposures.
    :param decisions: by kind (:data:`CONTROL`, :data:`VALID`, or a bias), model and name of the probe.
    :param practised: facts of a run that were practised, or are not in the design.
    :param left_out: probes that scored too few facts, with the reason.
    """

    probes: list[ProbeValidity]
    pairs: list[Row]
    decisions: Mapping[tuple[str, str, str], Decision]
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
    pairs = [
        {"model": one.facts.model, "probe": one.name, "and": other.name, "Pearson r": one.agreement(other)}
        for one, other in combinations(probes, 2)
        if one.facts.content_hash == other.facts.content_hash and one.facts.path != other.facts.path
    ]
    validities = [probe.validity() for probe in probes]
    decisions = decide(
        {(kind, one.model, one.name): claim for one in validities for kind, claim in _claims(one).items()}
    )
    practised = max(probe.practised for probe in probes)
    return Validity(validities, pairs, decisions, practised, left_out)


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


# --- in words


def conclude(findings: Validity) -> list[str]:
    by_model = grouped((probe.model, probe) for probe in findings.probes)
    return [sentence for own in by_model.values() for sentence in _of_model(own, findings.decisions)]


def _of_model(probes: Sequence[ProbeValidity], decisions: Mapping[tuple[str, str, str], Decision]) -> list[str]:
    """Return three to six sentences on the probes of one model."""
    model = probes[0].model
    failed = [one for one in probes if decisions[CONTROL, model, one.name].holds]
    concluded = []
    if failed:
        names = ", ".join(one.name for one in failed)
        concluded.append(
            f"{model}: control failed for {names}, whose AUROC shows nothing: two halves of the facts never read "
            "differ as well."
        )
    valid = {one.name: decisions[VALID, model, one.name] for one in probes}
    sound = [one for one in probes if valid[one.name].holds and one not in failed]
    if not sound:
        return concluded or [_none_is_valid(model, list(valid.values()))]
    best = max(sound, key=lambda one: one.numbers["AUROC"].value)
    read, chance, fastest = best.levels[-1]["exposures"], best.numbers["chance"], min(sound, key=_seconds)
    concluded += [
        f"{model}: {best.name} is the best of {len(probes)} scorings: a fact read {read} times ranks better "
        f"than one never read in {best.numbers['AUROC'].shown('.1%')} of pairs.",
        f"How wrong it can be: it has {percent(best.numbers['never read'].value)} of the facts never read right"
        f"{'' if chance is None else f' (chance {percent(chance)})'}, and misses "
        f"{percent(1 - best.numbers['read'].value)} of those read {read} times.",
    ]
    if others := [f"{one.name} {one.numbers['AUROC'].value:.2f}" for one in probes if one is not best]:
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


def _of_biases(probes: Sequence[ProbeValidity], decisions: Mapping[tuple[str, str, str], Decision]) -> list[str]:
    """Return a sentence on the probes whose ranks of facts never read depend on a property of the answer."""
    favours = {"length": ("short", "long"), "frequency": ("rare", "frequent"), "position": ("early", "late")}
    tested = [(name, one, decisions[name, one.model, one.name]) for name in BIASES for one in probes]
    by_kind = grouped(
        (f"{favours[name][0 if decision.sign > 0 else 1]} answers", f"{one.name} ({one.biases[name][0].value:+.2f})")
        for name, one, decision in tested
        if decision.holds
    )
    if not by_kind:
        smallest = _largest_smallest([decision for _, _, decision in tested])
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
