"""The results of a comparison of runs, in sentences and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.results.alterations import Alteration, altered_table
from fathom.results.checking import CheckedClaim, Row, detectable_table, in_words
from fathom.results.claims import (
    EQUIVALENT,
    MOST_SENTENCES,
    NO_DIFFERENCE,
    NOT_WORSE,
    SIGNIFICANT,
    UNDETERMINED,
    WORSE,
    Decision,
    MarginTest,
    difference_in_words,
    percent,
    rough_sentence,
    sentence,
    sentences,
)
from fathom.results.estimates import Estimate, combined, correlation, correlation_within, mean, point_estimate
from fathom.results.facts import RunFacts, common_facts
from fathom.results.metrics.significance import LEVEL, POWER
from fathom.results.metrics.table import Metric
from fathom.results.rows import Floats
from fathom.results.samples import scope
from fathom.results.tables import Cell, Table, Tabular

DIFFERENT = "different"
"""The condition of ``--fail-if`` that needs no margin."""
AGREE_AT = 10
"""Two probes agree on a fact if both rank its answer within so many or neither does."""
SMALLEST = (
    f"smallest: the true difference that a test of these facts at {100 * LEVEL:.0f} % finds in {100 * POWER:.0f} % of "
    "cases; smaller ones remain possible"
)


class RunLine(NamedTuple):
    """One run in one scoring.

    :param name: label in tables: its model, and what else distinguishes it.
    :param left_out: number of facts with an unscored prediction.
    :param numbers: one per metric, over the scored facts.
    """

    name: str
    outcome: RunFacts
    facts: int
    left_out: int
    numbers: tuple[Estimate, ...]


class Difference(NamedTuple):
    """The difference of two runs in one metric.

    :param first: mean of the first run over the common facts; NaN where it is undefined; *second* likewise.
    :param number: first − second, with interval, p value and the smallest detectable difference.
    """

    first: float
    second: float
    number: Estimate


class ComparedPair(NamedTuple):
    """Two runs.

    :param facts: number of facts that both scored; *only_first* that only the first scored.
    :param differences: one per metric; the first is the primary one.
    :param cells: number of facts that both have right, the first alone, the second alone and neither, and of which one
        run has neither 0 nor 1 for Hits@1: ties, templates that disagree; None where Hits@1 is undefined.
    :param agreement: of two probes, or scorings, of one model; None for others, and without ranks.
    :param differs: in what but the model the runs differ.
    :param one_model: whether the same model was evaluated twice.
    :param above: which run is above its baselines: "both", "neither" or its name; None where that is unknown.
    """

    first: str
    second: str
    facts: int
    only_first: int
    only_second: int
    differences: tuple[Difference, ...]
    cells: tuple[int, ...] | None
    agreement: Agreement | None
    differs: tuple[str, ...]
    decision: Decision
    one_model: bool
    above: str | None = None

    @property
    def higher(self) -> str | None:
        """The run that is significantly higher; None where neither is."""
        return {1: self.first, -1: self.second}.get(self.decision.sign)


class IncomparablePair(NamedTuple):
    """Two runs that could not be compared, and why."""

    first: str
    second: str
    why: str


@dataclass(frozen=True, repr=False)
class Comparison(Tabular):
    """All that ``fathom compare`` prints.

    :param controlled: verdicts that need a control: chat templates, altered sentences.
    :param over_seeds: whether two models differ over facts and seeds; the pairs, one per seed, then decide nothing.
    :param templates: the shared ones of runs with different templates, which alone are compared.
    """

    runs: tuple[RunLine, ...]
    metrics: tuple[Metric, ...]
    pairs: tuple[ComparedPair, ...]
    not_compared: tuple[IncomparablePair, ...] = ()
    controlled: tuple[Decision, ...] = ()
    alterations: tuple[Alteration, ...] = ()
    plans: tuple[Row, ...] = ()
    over_seeds: tuple[Decision, ...] = ()
    checks: tuple[CheckedClaim, ...] = ()
    templates: tuple[int, ...] = ()

    @property
    def answer(self) -> list[str]:
        """One sentence per pair, or one for all of many pairs."""
        primary = self.metrics[0]
        if self.over_seeds:
            lines = sentences(self.over_seeds, _is_share(primary))
        elif len(self.pairs) > MOST_SENTENCES:
            lines = [_of_many(self.pairs, primary)]
        else:
            lines = [pair_in_words(pair, primary) for pair in self.pairs]
        lines += map(sentence, self.controlled)
        if self.not_compared:
            lines.append(f"Not compared: {len(self.not_compared)} of {len(self.not_compared) + len(self.pairs)} pairs.")
        if self.templates:
            shared = ", ".join(map(str, self.templates))
            lines.append(f"The runs used different templates; compared are those that all of them used: {shared}.")
        decisions = self.over_seeds or [pair.decision for pair in self.pairs]
        found = [
            decision.claim.contrasts[0].estimate for decision in decisions if decision.word in (SIGNIFICANT, EQUIVALENT)
        ]
        samples = dict.fromkeys(estimate.sample for estimate in found if estimate is not None)
        return [*lines, *(scope(sample) for sample in samples if sample), *in_words(self.checks)]

    def judged(self, outcome: str) -> dict[str, tuple[bool, str]]:
        """Return whether each run fails a condition against the first run, and the verdict, by the condition's name.

        :param outcome: "worse", "not-equivalent" or "different".
        :raises BadInput: no margin for the first two, or a run that cannot be compared with the first, or judged.
        """
        reference = self.runs[0].name
        refuse(f"--fail-if {outcome}: {pair.why}" for pair in self.not_compared if reference == pair.first)
        undetermined = (pair for pair in self.pairs if pair.first == reference and pair.decision.word == UNDETERMINED)
        refuse(f"--fail-if {outcome}: {pair.second} {UNDETERMINED}: {pair.decision.reason}" for pair in undetermined)
        of_reference = [pair for pair in self.pairs if pair.first == reference]
        verdicts = [
            (f"{pair.second} against {reference}", pair.decision, pair_in_words(pair, self.metrics[0]))
            for pair in of_reference
        ]
        if self.over_seeds:
            verdicts = [(decision.claim.name, decision, sentence(decision)) for decision in self.over_seeds]
        if outcome != DIFFERENT and any(decision.claim.margin is None for _, decision, _ in verdicts):
            raise BadInput(f"--fail-if {outcome} needs a margin, such as --margin 2")
        return {f"{name}: {outcome}": (_fails(decision, outcome), verdict) for name, decision, verdict in verdicts}

    @property
    def tables(self) -> list[Table]:
        """Runs, differences in the primary metric, secondary metrics, right and wrong answers, and what was refused."""
        refused = self.not_compared
        return [
            _runs_table(self),
            _differences_table(self),
            *([_secondary_table(self)] if len(self.metrics) > 1 else []),
            _cells_table(self),
            *([_claims_table(self.controlled, "claims that need a control")] if self.controlled else []),
            *([_claims_table(self.over_seeds, "over all seeds")] if self.over_seeds else []),
            *self.further_tables,
            *([detectable_table(self.plans)] if self.plans else []),
            *([refusals_table(("first", "second", "why"), refused)] if refused else []),
        ]

    @property
    def further_tables(self) -> list[Table]:
        """Altered sentences, and the agreement of probes, where there are any."""
        agreeing = [pair for pair in self.pairs if pair.agreement]
        tables = [altered_table(self.alterations)] if self.alterations else []
        return [*tables, *([_agreements_table(agreeing)] if agreeing else [])]


def _fails(decision: Decision, outcome: str) -> bool:
    """Return whether a verdict fails a condition; undecided, a run is not worse, but neither is it equivalent."""
    if outcome == DIFFERENT:
        return decision.holds
    by_margin = decision.by_margin
    if outcome == "worse":
        return by_margin is not None and by_margin.is_worse
    return by_margin is None or not by_margin.is_equivalent


# --- sentences


def pair_in_words(pair: ComparedPair, primary: Metric) -> str:
    """Return the verdict on a pair, and what else differs between its runs."""
    difference, decision, by_margin = pair.differences[0], pair.decision, pair.decision.by_margin
    cause = ", which may explain the difference" if decision.word == SIGNIFICANT else ""
    differ = f" The runs used different {', '.join(pair.differs)}{cause}." if pair.differs else ""
    if decision.word == UNDETERMINED:
        what = f"Whether {pair.first} and {pair.second} differ in {primary.name}"
        return f"{what} {UNDETERMINED}: {decision.reason}.{differ}"
    higher, lower, values = pair.first, pair.second, [difference.first, difference.second]
    if difference.number.value < 0:
        higher, lower, values, decision = lower, higher, values[::-1], _turned(decision)
    knows = "scores higher" if pair.one_model else "knows more"
    verb = knows if primary.name == "accuracy" else f"has a higher {primary.name}"
    verdict = {
        SIGNIFICANT: f"{higher} {verb} than {lower}",
        NO_DIFFERENCE: f"{higher} and {lower} show no significant difference in {primary.name}",
        EQUIVALENT: f"{higher} and {lower} show no significant difference in {primary.name}",
    }[decision.word]
    shown = " vs ".join(percent(value) if _is_share(primary) else f"{value:.3f}" for value in values)
    numbers = f"{shown}, {difference_in_words(decision, _is_share(primary))}"
    text = f"{verdict} on the {pair.facts:,} facts that both runs scored: {numbers}."
    if decision.word == NO_DIFFERENCE and decision.smallest is not None:
        size = f"{100 * decision.smallest:.3g} points" if _is_share(primary) else f"{decision.smallest:.3g}"
        text += (
            f" A true difference of {size} would have been found in {100 * POWER:.0f} % of cases; smaller ones remain "
            "possible."
        )
    if by_margin is not None:
        text += f" {_margin_in_words(pair, by_margin, primary)}"
    neither = "Neither is significantly above its baselines." if pair.above == "neither" else ""
    return " ".join(filter(None, (text, rough_sentence(decision), neither))) + differ


def _margin_in_words(pair: ComparedPair, by_margin: MarginTest, primary: Metric) -> str:
    """Return the verdict on the margin, of the second run against the first, which is the reference."""
    margin = f"{100 * by_margin.margin:.3g} point{'s' * (by_margin.margin != 0.01)}"
    if by_margin.word == EQUIVALENT:
        still = "The difference is significant, but the two" if pair.decision.holds else "They"
        text = f"{still} are equivalent within {margin}"
    elif by_margin.word == NOT_WORSE:
        text = f"{pair.second} is not worse than {pair.first} by more than {margin}"
    elif by_margin.word == WORSE:
        text = f"{pair.second} is worse than {pair.first} by more than {margin}"
    else:
        text = f"Whether {pair.second} is worse than {pair.first} by more than {margin} is undecided"
    if by_margin.low is None or by_margin.high is None:
        return f"{text}."
    return f"{text} (interval of these tests: {100 * by_margin.low:.1f} to {100 * by_margin.high:.1f})."


def _turned(decision: Decision) -> Decision:
    """Return the decision with the difference of second − first."""
    [first, *others] = decision.claim.contrasts
    assert first.estimate is not None
    turned = first._replace(estimate=first.estimate._replace(value=-first.estimate.value))
    low, high = (None if end is None else -end for end in (decision.high, decision.low))
    return decision._replace(claim=decision.claim._replace(contrasts=(turned, *others)), low=low, high=high)


def _is_share(primary: Metric) -> bool:
    return primary.shown.endswith("%")


def _of_many(pairs: Sequence[ComparedPair], primary: Metric) -> str:
    holds = [pair for pair in pairs if pair.decision.holds]
    text = f"{len(holds)} of {len(pairs)} pairs differ significantly in {primary.name}"
    if holds:
        most = max(holds, key=lambda pair: abs(pair.differences[0].number.value))
        lower = most.second if most.higher == most.first else most.first
        decision = _turned(most.decision) if most.decision.sign < 0 else most.decision
        text += f"; the largest: {most.higher} over {lower}, {difference_in_words(decision, _is_share(primary))}"
    words = Counter(pair.decision.by_margin.word for pair in pairs if pair.decision.by_margin is not None)
    counts = ", ".join(f"{count} {word}" for word, count in words.items())
    return f"{text}{f'; by the margin: {counts}' if counts else ''}."


# --- tables


def _runs_table(comparison: Comparison) -> Table:
    names, about = [metric.name for metric in comparison.metrics], ("model", "probe", "scoring", "data", "path")
    rows = [
        {
            "run": run.name,
            **{name: getattr(run.outcome, name) for name in about},
            "facts": run.facts,
            "unscored": run.left_out,
            **dict(zip(names, run.numbers, strict=True)),
        }
        for run in comparison.runs
    ]
    return Table.of(rows, "runs", ["each run: all facts that it scored"], main=names[0], hidden=about)


def _differences_table(comparison: Comparison) -> Table:
    rows: list[dict[str, Cell | Estimate]] = []
    for pair in comparison.pairs:
        difference, decision = pair.differences[0], pair.decision
        rows.append(
            {
                "first": pair.first,
                "second": pair.second,
                "facts": pair.facts,
                "only first": pair.only_first,
                "only second": pair.only_second,
                "of first": difference.first,
                "of second": difference.second,
                "difference": difference.number._replace(low=decision.low, high=decision.high),
                "p (Holm)": decision.p_value,
                "smallest": None if decision.holds else decision.smallest,
                "verdict": f"{pair.higher} higher" if pair.higher else decision.word,
                "by margin": decision.by_margin and decision.by_margin.word,
                "reason": decision.reason or None,
            }
        )
    family = len(comparison.pairs) + len(comparison.controlled)
    adjusted = f"; p by Holm and simultaneous intervals for {family} verdicts" if family > 1 else ""
    few = len(comparison.pairs) <= MOST_SENTENCES  # whose sentences say what would have been found
    notes = [f"difference: first minus second, paired by fact{adjusted}", *([] if few else [SMALLEST])]
    if any(pair.only_first + pair.only_second for pair in comparison.pairs):
        notes.append("facts that only one run of a pair scored are not compared: see CSV and JSON")
    primary = comparison.metrics[0]
    shares = dict.fromkeys(("of first", "of second"), primary.shown)
    formats = shares | {"smallest": f"+{primary.shown}", "p (Holm)": ".2g"}
    hidden = ["only first", "only second", "of first", "of second", "p", "reason", *(["smallest"] if few else [])]
    table = Table.of(rows, f"differences in {primary.name}", notes, hidden=hidden, formats=formats)
    return table.without_empty("by margin")


def _secondary_table(comparison: Comparison) -> Table:
    rows = [
        {
            "metric": metric.name,
            "first": pair.first,
            "second": pair.second,
            "of first": difference.first,
            "of second": difference.second,
            "difference": difference.number,
            "smallest": difference.number.smallest,
        }
        for place, metric in enumerate(comparison.metrics[1:], 1)
        for pair in comparison.pairs
        for difference in [pair.differences[place]]
    ]
    notes = ["no verdict: the primary metric decides; each interval holds by itself"]
    return Table.of(rows, "secondary metrics", notes, hidden=("p", "smallest"))


def _cells_table(comparison: Comparison) -> Table:
    columns = ("both right", "only first", "only second", "both wrong", "undecided")
    rows = tuple((pair.first, pair.second, *(pair.cells or (None,) * len(columns))) for pair in comparison.pairs)
    notes = ("number of facts; undecided: ties, or templates that disagree",)
    return Table(("first", "second", *columns), rows, "right and wrong", notes=notes)


def _claims_table(decisions: Sequence[Decision], title: str) -> Table:
    rows = [
        {
            "claim": decision.claim.name,
            "contrast": contrast.name,
            "difference": contrast.estimate,
            "p (Holm)": decision.p_value,
            "verdict": decision.verdict,
        }
        for decision in decisions
        for contrast in decision.claim.contrasts
    ]
    notes = ["a claim needs every contrast to be significant; p: of the contrast alone; p (Holm): of the claim"]
    return Table.of(rows, title, notes, formats={"p (Holm)": ".2g"})


def _agreements_table(pairs: Sequence[ComparedPair]) -> Table:
    rows = [
        {
            "first": pair.first,
            "second": pair.second,
            "facts": numbers.both_hit.n,
            "r": numbers.log_ranks,
            "r within": numbers.within,
            f"both hit@{AGREE_AT}": numbers.both_hit,
            "only first": numbers.only_first,
            "only second": numbers.only_second,
            "both miss": numbers.both_miss,
        }
        for pair in pairs
        if (numbers := pair.agreement) is not None
    ]
    notes = ("r: Pearson's correlation of log10 ranks; r within: of these minus the mean of their relation",)
    return Table.of(rows, "agreement of probes", notes, main="r")


def refusals_table(columns: Sequence[str], lines: Sequence[Sequence[Cell]]) -> Table:
    """List what could not be compared, and why."""
    return Table(tuple(columns), tuple(map(tuple, lines)), "not compared")


# --- agreement of two runs on the ranks of the same facts


WITHIN = "log10 rank, within relations"


class Agreement(NamedTuple):
    """Two probes on the facts that both ranked. Correlations are undefined where a search stopped.

    :param within: of log10 ranks less the mean of their relation.
    :param both_hit: share of facts that both rank within *k*; likewise the other quadrants.
    :param left_out: number of facts that only one of them, or neither, could rank.
    :param stopped: number of facts whose rank is only known to be greater than some number. They are in the quadrants;
        a correlation of the others would be of facts selected by rank.
    :param points: fact id, rank by the first, rank by the second; without those stopped.
    """

    k: int
    log_ranks: Estimate
    within: Estimate
    ranks: Estimate
    both_hit: Estimate
    both_miss: Estimate
    only_first: Estimate
    only_second: Estimate
    left_out: int
    stopped: int
    points: list[tuple[str, float, float]]

    @property
    def correlations(self) -> dict[str, Estimate]:
        return {"r": self.log_ranks, "r within": self.within, "r of ranks": self.ranks}

    @property
    def quadrants(self) -> dict[str, Estimate]:
        shares = (self.both_hit, self.only_first, self.only_second, self.both_miss)
        return dict(zip(("both hit", "only first", "only second", "both miss"), shares, strict=True))


def agreement(first: RunFacts, second: RunFacts, k: int) -> Agreement:
    """Compare the ranks of the facts that both ranked, or stopped at no rank below *k*.

    Section 5.2 and figure 7 of Jinno et al. (DEER) correlate decimal logarithms of ranks. The control is the
    correlation within relations: probes that know other facts agree, too, if both find the same relations easy.

    :raises BadInput: there are none, or they were ranked among other candidates.
    """
    sides = (first, second)
    common = common_facts(sides)
    ranked = [np.asarray((side.beyond == np.inf) | (side.beyond >= k))[side.at(common)] for side in sides]
    facts = [fact for fact, both in zip(common, ranked[0] & ranked[1], strict=True) if both]
    if not facts:
        raise BadInput(f"no fact is ranked as far as {k} by both runs: give a smaller --k, or a greater --max-rank")
    stopped = (first.stopped | second.stopped).intersection(facts)
    ranks = [side.mean_ranks[side.at(facts)] for side in sides]
    logs = [side.mean_log_ranks[side.at(facts)] for side in sides]
    sample, recipe = first.sample(facts), partial(combined, recipes=[side.recipe("") for side in sides], sign=" and ")

    def correlated(name: str, values: Sequence[Floats], groups: Sequence[str] | None = None) -> Estimate:
        line = recipe(f"correlation of {name}")
        if stopped:
            return point_estimate("some ranks are only known to lie beyond --max-rank: no correlation", line)
        if groups is None:
            return correlation(values[0], values[1], sample, line)
        return correlation_within(values[0], values[1], groups, sample, line)

    first_hits, second_hits = ranks[0] <= k, ranks[1] <= k
    return Agreement(
        k,
        correlated("log10 ranks", logs),
        correlated(WITHIN, logs, first.relations_of(facts)),
        correlated("ranks", ranks),
        mean(first_hits & second_hits, sample, recipe(f"both hit@{k}")),
        mean(~first_hits & ~second_hits, sample, recipe(f"both miss@{k}")),
        mean(first_hits & ~second_hits, sample, recipe(f"only first hit@{k}")),
        mean(~first_hits & second_hits, sample, recipe(f"only second hit@{k}")),
        len(set(first.facts).union(second.facts)) - len(facts),
        len(stopped),
        [point for point in zip(facts, *(side.tolist() for side in ranks), strict=True) if point[0] not in stopped],
    )
