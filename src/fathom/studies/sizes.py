"""Do larger models hold more facts, by every probe? (Tables 4 and 8 of the DEER paper.)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fathom.data.queries import QuerySet
from fathom.errors import BadInput, refuse
from fathom.formats import read
from fathom.models.base import Model
from fathom.options import parse_options
from fathom.probes import PROBES
from fathom.probes.shared_options import EvaluationOptions
from fathom.results.baselines import NO_KNOWLEDGE, RunBaselines, which_is_above
from fathom.results.claims import Claim, Contrast, Decision, decide
from fathom.results.estimates import Estimate, untold
from fathom.results.facts import RunFacts
from fathom.results.loading import every_scoring
from fathom.results.names import folder_names
from fathom.results.pairing import common_facts, difference
from fathom.results.rows import grouped
from fathom.results.tables import Table
from fathom.run import run
from fathom.studies import Announce
from fathom.studies.options import SeveralProbesOptions, SizesOptions

CUTS = (1, 10, 100)
MAX_RANK = 100
"""Where the statement probe stops unless told otherwise: the greatest cut needs no more."""


class HitsLine(NamedTuple):
    """One run in one scoring.

    :param probe: with the scoring.
    :param parameters: of the model, None where they do not matter.
    :param hits: Hits@k for each of :data:`CUTS`; without a value where the search stopped before k.
    :param candidates: mean number that were ranked; NaN where there are none.
    :param queries: how many were asked; of a fact that several ask, one.
    :param unscored: queries without a rank, counted and left out.
    """

    probe: str
    name: str
    parameters: int | None
    hits: tuple[Estimate, ...]
    candidates: float
    queries: int
    unscored: int


class SizeStep(NamedTuple):
    """From one size to the next.

    :param smaller: a model.
    :param larger: the next in order of size.
    :param k: of Hits@k.
    :param difference: larger − smaller, paired by fact; without a value where their candidates or facts are not alike.
    :param decision: whether the two differ.
    :param above: which of the two is above the baselines on these facts, see :func:`which_is_above`.
    """

    probe: str
    smaller: str
    larger: str
    k: int
    difference: Estimate
    decision: Decision | None = None
    above: str | None = None

    @property
    def verdict(self) -> str | None:
        """Whether Hits@k rises or drops significantly; else why not."""
        if self.decision is None:
            return None
        return {1: "rise", -1: "drop"}.get(self.decision.sign, self.decision.word)


class AskedProbe(NamedTuple):
    """A probe with its options."""

    probe: str
    options: EvaluationOptions


class Sizes(NamedTuple):
    """Models in order of size, and of each probe and scoring the steps from each to the next."""

    lines: list[HitsLine]
    steps: list[SizeStep]


def analyse(
    models: Sequence[tuple[str, Callable[[], Model]]],
    data: str | Path | QuerySet,
    options: SizesOptions,
    out: Path,
    announce: Announce,
) -> Sizes:
    """Every probe asked of every model.

    :param models: name and how to load it, one in memory at a time.
    """
    asked = asked_of(options, {"max_rank": MAX_RANK})
    names = folder_names([name for name, _ in models])
    queryset = data if isinstance(data, QuerySet) else read(data)
    found: list[tuple[HitsLine, RunFacts]] = []
    for (name, load), short in zip(models, names, strict=True):
        model = load()
        for probe, chosen in asked:
            folder = run(probe, model, queryset, chosen, out / f"{probe}-{short}", announce(f"{probe} {name}"))
            outcomes = every_scoring(folder, short, options.cluster)
            found += [(hits_line(outcome, model.parameters), outcome) for outcome in outcomes]
    found.sort(key=lambda one: (one[0].probe, one[0].parameters or 0))
    by_probe = grouped((line.probe, outcome) for line, outcome in found)
    next_to = [(probe, *pair) for probe, outcomes in by_probe.items() for pair in pairwise(outcomes)]
    return Sizes([line for line, _ in found], steps_between(next_to))


def asked_of(options: SeveralProbesOptions, usual: dict[str, object] | None = None) -> list[AskedProbe]:
    """Each probe with those of the options that it has.

    :param usual: where nothing was said.
    :raises BadInput: no probe, one of link predictors, an option that none has.
    """
    entries = [PROBES.find(probe) for probe in options.probes]
    given = (usual or {}) | options.given()
    refuse(f"the {entry.name} probe needs a {entry.needs}" for entry in entries if entry.needs != "language model")
    fields = {name for entry in entries for name in entry.options.model_fields} | {"max_rank"}
    unknown = sorted(given.keys() - fields)
    if unknown or not entries:
        raise BadInput(f"there is no option {', '.join(unknown)}: there is {', '.join(sorted(fields))}")
    return [
        AskedProbe(
            entry.name,
            parse_options(entry.options, {k: v for k, v in given.items() if k in entry.options.model_fields}),
        )
        for entry in entries
    ]


def steps_between(pairs: Sequence[tuple[str, RunFacts, RunFacts]]) -> list[SizeStep]:
    """Compare each smaller with the next larger model at every cut.

    Hits@1 decides: whether it changes in each step, and whether each model is above the baselines, is one family.

    :param pairs: probe, smaller and larger model.
    """
    steps = [_step(probe, smaller, larger, k) for probe, smaller, larger in pairs for k in CUTS]
    primary = [step for step in steps if step.k == CUTS[0]]
    models = {(probe, side.model): side for probe, *sides in pairs for side in sides}
    above = {key: RunBaselines(side).claim(CUTS[0], side.scored_facts) for key, side in models.items()}
    changes = [Claim("larger − smaller", (Contrast("larger − smaller", step.difference),)) for step in primary]
    decisions = iter(decide([*changes, *filter(None, above.values())]))
    changed = {id(step): next(decisions) for step in primary}
    is_above = {key: None if claim is None else next(decisions) for key, claim in above.items()}
    return [
        step._replace(
            decision=changed[id(step)],
            above=which_is_above(
                [is_above[step.probe, model] for model in (step.smaller, step.larger)], (step.smaller, step.larger)
            ),
        )
        if id(step) in changed
        else step
        for step in steps
    ]


def _step(probe: str, smaller: RunFacts, larger: RunFacts, k: int) -> SizeStep:
    try:
        facts, hits = common_facts([larger, smaller]), [larger.hits(k), smaller.hits(k)]
        number = difference(f"hits@{k}", [(1, larger), (-1, smaller)], hits, facts)
    except BadInput as error:
        number = untold(str(error), form="+.1%")
    return SizeStep(probe, smaller.model, larger.model, k, number)


def conclude(findings: Sizes) -> list[str]:
    """How many of the steps to a larger model change Hits@1."""
    own = [step for step in findings.steps if step.k == 1]
    counts = Counter(step.verdict for step in own)
    return [
        f"{counts['rise']} of {len(own)} steps to a larger model raise Hits@1 significantly, {counts['drop']} lower it."
    ]


def tables(findings: Sizes) -> list[Table]:
    """Every run, then what each step to the next size changes."""
    rows = [
        {
            "probe": step.probe,
            "from": step.smaller,
            "to": step.larger,
            "of": f"hits@{step.k}",
            "difference": step.difference,
            "verdict": step.verdict,
            "above baseline": step.above,
        }
        for step in findings.steps
    ]
    notes = (
        "paired by fact; Hits@1 decides, by Holm over all steps and models; other cuts are secondary",
        NO_KNOWLEDGE,
    )
    growth = hits_table("growth with the size of the model", findings.lines)
    return [growth, *([Table.of(rows, "from each size to the next", notes)] if rows else [])]


# --- Hits@1, 10 and 100 of runs that a study has made, one line per run and scoring


def hits_line(outcome: RunFacts, parameters: int | None = None) -> HitsLine:
    """Of one run in one scoring."""
    return HitsLine(
        f"{outcome.probe} {outcome.scoring}",
        outcome.model,
        parameters,
        tuple(outcome.mean(f"hits@{k}", outcome.hits(k)) for k in CUTS),
        outcome.mean_candidates,
        len(outcome.facts),
        len(outcome.left_out),
    )


def hits_table(title: str, lines: Sequence[HitsLine]) -> Table:
    """With intervals."""
    names = [f"hits@{k}" for k in CUTS]
    rows = [
        {
            "probe": line.probe,
            "model or prompt": line.name,
            "parameters": line.parameters,
            **dict(zip(names, line.hits, strict=True)),
            "candidates": line.candidates,
            "queries": line.queries,
            "unscored": line.unscored,
        }
        for line in lines
    ]
    return Table.of(rows, title, inline=True, formats={"candidates": ",.0f"})
