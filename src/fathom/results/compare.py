"""Compare runs: the estimates of each, and the paired difference of every two on the facts that both scored.

The value of a fact is the mean over its templates, sentences and directions. Pairs are joined on ``fact_id``, so runs
that differ in model, templates, reading, answer pool, probe or world can be compared; the output names what differs.
One primary metric decides; all pairs, and claims that need a control, are one family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from fathom.errors import BadInput, all_of, refuse
from fathom.metrics.significance import LEVEL, POWER
from fathom.metrics.table import METRICS, Metric, metric
from fathom.results.agreements import Agreement, agreement
from fathom.results.altered import Alteration, alterations, altered_claims, altered_table
from fathom.results.claims import (
    EQUIVALENT,
    NO_DIFFERENCE,
    SIGNIFICANT,
    UNDETERMINED,
    Claim,
    Contrast,
    Decision,
    decide,
    difference_in_words,
    percent,
    sentence,
)
from fathom.results.detect import Detectable, detectable, detectable_table
from fathom.results.estimates import Estimate
from fathom.results.facts import (
    AS_IT_IS,
    CHAT,
    PLAIN,
    SHUFFLED,
    WRITTEN,
    RunFacts,
    Shared,
    unknown_scorings,
    wanted_of,
)
from fathom.results.joint import common_facts, difference
from fathom.results.names import distinguished, short_names
from fathom.results.rows import Floats, grouped
from fathom.results.samples import scope
from fathom.results.tables import Cell, Table, Tabled
from fathom.store.folder import RunFolder

Held = TypeVar("Held")
AGREE_AT = 10
"""Two probes agree on a fact if both rank its answer within so many or neither does."""
COMPARED = ("accuracy", "hits@10", "mrr")
"""Metrics that are compared by default; the first decides."""
SMALLEST = (
    f"smallest: the true difference that a test of these facts at {LEVEL:.0%} finds in {POWER:.0%} of cases; smaller "
    "ones remain possible"
)
MOST_SENTENCES = 3
_OPTION_NAMES = {
    **dict.fromkeys(("templates", "own_templates", "tail_template"), "templates"),
    **dict.fromkeys(("pool", "candidates", "add_candidates", "single_token"), "answer pools"),
    **dict.fromkeys(("chat", "shuffle_chat", "system"), "chat templates"),
    **dict.fromkeys(("reduction", "score", "pll"), "scorings"),
    "reading": "readings",
    "alter": "sentences",
    "limit": "selections of facts",
}
_DEFAULTS = {"chat": False, "shuffle_chat": False, "alter": AS_IT_IS, "limit": None, "pool": None}


class OfRun(NamedTuple):
    """One run in one scoring.

    :param name: label in tables: its model, and what else distinguishes it.
    :param left_out: number of facts with an unscored prediction.
    :param numbers: of each metric, over the scored facts.
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


class Cells(NamedTuple):
    """How many facts both runs, one of them or neither have right.

    :param undecided: facts of which one run has neither 0 nor 1 for Hits@1: ties, templates that disagree.
    """

    both: int
    only_first: int
    only_second: int
    neither: int
    undecided: int


class Pair(NamedTuple):
    """Two runs.

    :param facts: how many both scored. :param only_first: how many only the first scored.
    :param differences: of each metric; the first is the primary one.
    :param cells: None where Hits@1 is undefined.
    :param agreement: of two probes, or scorings, of one model; None of others, and where a run has no ranks.
    :param differs: what but the model differs in how the runs were made.
    :param decision: the verdict on the primary metric.
    """

    first: str
    second: str
    facts: int
    only_first: int
    only_second: int
    differences: tuple[Difference, ...]
    cells: Cells | None
    agreement: Agreement | None
    differs: tuple[str, ...]
    decision: Decision

    @property
    def higher(self) -> str | None:
        """The run that is significantly higher; None where neither is."""
        return {1: self.first, -1: self.second}.get(self.decision.sign)


class NotCompared(NamedTuple):
    """Two runs that could not be compared, and why."""

    first: str
    second: str
    why: str


@dataclass(frozen=True, repr=False)
class Comparison(Tabled):
    """All that ``fathom compare`` prints.

    :param controlled: verdicts that need a control: chat templates, altered sentences.
    :param alterations: of runs with altered sentences, against the unmodified ones.
    :param plans: what would be needed to detect a difference, where that was asked.
    """

    runs: tuple[OfRun, ...]
    metrics: tuple[Metric, ...]
    pairs: tuple[Pair, ...]
    not_compared: tuple[NotCompared, ...] = ()
    controlled: tuple[Decision, ...] = ()
    alterations: tuple[Alteration, ...] = ()
    plans: tuple[Detectable, ...] = ()

    @property
    def answer(self) -> list[str]:
        """One sentence per pair, or one for all of many pairs."""
        primary = self.metrics[0]
        if len(self.pairs) > MOST_SENTENCES:
            said = [_of_many(self.pairs, primary)]
        else:
            said = [_sentences(pair, primary) for pair in self.pairs]
        said += map(sentence, self.controlled)
        if self.not_compared:
            said.append(f"Not compared: {len(self.not_compared)} of {len(self.not_compared) + len(self.pairs)} pairs.")
        samples = dict.fromkeys(pair.differences[0].number.sample for pair in self.pairs)
        return [*said, *(scope(sample) for sample in samples if sample)]

    @property
    def tables(self) -> list[Table]:
        """Runs, differences in the primary metric, secondary metrics, right and wrong answers, and what was refused."""
        found = [_runs_table(self), _differences_table(self)]
        found += [_secondary_table(self)] if len(self.metrics) > 1 else []
        found += [_cells_table(self)]
        found += [_claims_table(self.controlled)] if self.controlled else []
        found += [altered_table(self.alterations)] if self.alterations else []
        found += [_agreements_table(agreeing)] if (agreeing := [one for one in self.pairs if one.agreement]) else []
        found += [detectable_table(self.plans)] if self.plans else []
        found += [refusals_table(("first", "second", "why"), self.not_compared)] if self.not_compared else []
        return found


def compare(
    runs: Sequence[RunFolder],
    scoring: Sequence[str] = (),
    metrics: Sequence[str] = COMPARED,
    cluster: str = "",
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
) -> Comparison:
    """Compare runs, all pairs of them.

    :param scoring: which to take of runs that have several; with more than one of a run, these are compared, too.
    :param metrics: "accuracy", "mrr", "hits@K", or others whose values are of ranks alone. The first decides.
    :param cluster: sampling unit of the intervals; see :mod:`fathom.results.samples`.
    :param to_first: only the pairs with the first run.
    :param margin: differences smaller than this do not matter, in units of the primary metric: 0.02 is 2 points.
    :param detect: say how many facts and relations would detect this difference in 80 % of cases.
    :raises BadInput: unfinished runs, one given twice, scorings not chosen, metrics that are no mean over facts; no
        pair that can be compared.
    """
    wanted: list[Metric] = []
    shared: Shared = {}
    _, facts = all_of(
        lambda: wanted.extend(map(_metric, dict.fromkeys(metrics))),
        lambda: read_runs(runs, scoring, cluster, lambda facts: facts.release(wanted, shared)),
    )
    changed = alterations(runs, scoring, cluster) if any(one.alteration != AS_IT_IS for one in facts) else []
    return compare_facts(facts, wanted, to_first, margin, detect, changed)


def compare_facts(
    facts: Sequence[RunFacts],
    metrics: Sequence[Metric],
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
    changed: Sequence[Alteration] = (),
) -> Comparison:
    """Compare runs that were read.

    :param metrics: whose values each of them has; the first decides.
    :param changed: runs with altered sentences against the unmodified ones.
    :raises BadInput: no pair can be compared.
    """
    sides = list(zip(names_of_runs(facts), facts, strict=True))
    lines = tuple(_of_run(*own, metrics) for own in sides)
    two = [(one, other) for one, other in combinations(sides, 2) if not to_first or one is sides[0]]
    paired = [_pair(one, other, metrics) for one, other in two]
    pairs = [one for one in paired if isinstance(one, Pair)]
    refused = [one for one in paired if isinstance(one, NotCompared)]
    if not pairs:
        raise BadInput(dict.fromkeys(one.why for one in refused))
    claims = [_claim_of(pair, metrics[0], margin) for pair in pairs]
    controlled = [*_chat_claims(facts, metrics[0]), *altered_claims(changed)]
    decisions = decide([*claims, *controlled])
    decided = [pair._replace(decision=one) for pair, one in zip(pairs, decisions, strict=False)]
    plans = []
    if detect is not None:
        plans = [detectable(pair.first, pair.second, pair.differences[0].number, detect) for pair in decided]
    return Comparison(
        lines,
        tuple(metrics),
        tuple(decided),
        tuple(refused),
        tuple(decisions[len(pairs) :]),
        tuple(changed),
        tuple(plans),
    )


def read_runs(
    runs: Sequence[RunFolder], scoring: Sequence[str], cluster: str, kept: Callable[[RunFacts], Held]
) -> list[Held]:
    """Read each run in each scoring that is wanted of it.

    :param kept: what is held of each while the next run is read.
    :raises BadInput: with the faults of all runs.
    """
    faults = _given_twice(runs)
    found: list[Held] = []
    there: set[str] = set()
    for run, model in zip(runs, short_names(runs), strict=True):
        try:
            for outcome in wanted_of(run, scoring, model, cluster):
                there |= set(outcome.rows.scorings)
                found.append(kept(outcome))
            del outcome  # with its rows, before those of the next run
        except BadInput as error:
            faults += error.faults
    refuse([*faults, *(unknown_scorings(scoring, there) if there else ())])
    check_several(found)
    return found


def check_several(found: Sequence[object]) -> None:
    """:raises BadInput: there are no two to compare."""
    if len(found) < 2:
        raise BadInput("expected two runs or more, or several scorings of one (--scoring A,B): found one")


def _given_twice(runs: Sequence[RunFolder]) -> list[str]:
    places = grouped((run.path.resolve(), run.path) for run in runs)
    return [
        f"{paths[0]} is given {'twice' if len(paths) == 2 else f'{len(paths)} times'}: give it once "
        "(several scorings of one run: --scoring A,B)"
        for paths in places.values()
        if len(paths) > 1
    ]


def _metric(name: str) -> Metric:
    """:raises BadInput: there is none of that name, or it is no mean over facts of what ranks tell."""
    found = metric(name)
    if not found.beside_baselines:
        own = ", ".join(one.name for one in METRICS.entries() if one.beside_baselines)
        raise BadInput(f"--metrics {name}: it cannot be paired by fact; there is {own} and hits@K")
    return found


def names_of_runs(outcomes: Sequence[RunFacts]) -> list[str]:
    """Return the model of each, with probe, scoring, data, reading, wording and folder where these distinguish them."""
    return distinguished([one.told_by for one in outcomes])


def _of_run(name: str, outcome: RunFacts, wanted: Sequence[Metric]) -> OfRun:
    facts = outcome.told()
    sample = outcome.sample(facts)
    numbers = (outcome.mean(one.name, outcome.values(one), facts, sample, one.shown) for one in wanted)
    return OfRun(name, outcome, len(facts), len(outcome.left_out), tuple(numbers))


def _pair(one: tuple[str, RunFacts], other: tuple[str, RunFacts], wanted: Sequence[Metric]) -> Pair | NotCompared:
    (name, first), (second_name, second) = one, other
    try:
        # Other candidates are the question if the model is the same: how much does a larger pool cost?
        facts = common_facts([first, second], same_candidates=first.content_hash != second.content_hash)
    except BadInput as error:
        return NotCompared(name, second_name, str(error))
    sample = first.sample(facts)

    def differing(own: Metric) -> Difference:
        values = [side.values(own) for side in (first, second)]
        one_mean, other_mean = (
            float(value[side.at(facts)].mean()) for side, value in zip((first, second), values, strict=True)
        )
        signed, form = [(1, first), (-1, second)], f"+{own.shown}"
        return Difference(one_mean, other_mean, difference(own.name, signed, values, facts, sample, form))

    differences = tuple(map(differing, wanted))
    claim = Claim(f"{name} and {second_name}", (Contrast(wanted[0].name, differences[0].number),))
    return Pair(
        name,
        second_name,
        len(facts),
        len(first.told()) - len(facts),
        len(second.told()) - len(facts),
        differences,
        cells_of(*(side.hits(1)[side.at(facts)] for side in (first, second))),
        _agreement(first, second),
        what_differs(first, second, facts),
        Decision(claim, UNDETERMINED, "", None, None, None),
    )


def _claim_of(pair: Pair, primary: Metric, margin: float | None) -> Claim:
    contrast = Contrast(primary.name, pair.differences[0].number)
    return Claim(f"{pair.first} and {pair.second} differ in {primary.name}", (contrast,), margin)


def what_differs(first: RunFacts, second: RunFacts, facts: Sequence[str]) -> tuple[str, ...]:
    """Return what but the model differs in how two runs were made, in words such as "templates"."""
    if first.probe != second.probe:
        return (f"probes ({first.probe} and {second.probe})",)
    found = [] if first.data == second.data else [f"data sets ({first.data} and {second.data})"]
    if first.reading != second.reading:
        found.append(f"readings ({first.reading} and {second.reading})")
    spaces = [[side.spaces[place] for place in side.at(facts).tolist()] for side in (first, second)]
    if spaces[0] != spaces[1]:
        sizes = [float(side.sizes[side.at(facts)].mean()) for side in (first, second)]
        found.append(f"answer pools ({sizes[0]:,.0f} and {sizes[1]:,.0f} candidates)")
    if first.scoring != second.scoring:
        found.append(f"scorings ({first.scoring} and {second.scoring})")
    known = {word.partition(" (")[0] for word in found}
    options = [{**_DEFAULTS, **side.options} for side in (first, second)]
    for name, word in _OPTION_NAMES.items():
        values = [own.get(name) for own in options]
        if word not in known and values[0] != values[1] and all(name in own for own in options):
            known.add(word)
            found.append(word if word == "answer pools" else f"{word} ({' and '.join(map(_value, values))})")
    return tuple(found)


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "all"
    return {"True": "yes", "False": "no", "None": "all"}.get(str(value), str(value))


def _agreement(first: RunFacts, second: RunFacts) -> Agreement | None:
    another = (first.probe, first.scoring) != (second.probe, second.scoring)
    if first.model != second.model or not another or WRITTEN in (first.why_untold, second.why_untold):
        return None
    try:
        return agreement(first, second, AGREE_AT)._replace(points=[])  # which no table here shows
    except BadInput:  # both searches stopped too early
        return None


def cells_of(first: Floats, second: Floats) -> Cells | None:
    """Count facts that both, one or neither has right.

    :param first: Hits@1 of the facts, shape (n); *second* of the same facts.
    """
    if np.isnan(first + second).any():
        return None
    decided = np.isin(first, (0, 1)) & np.isin(second, (0, 1))
    one, other = first[decided] == 1, second[decided] == 1
    both, only_first, only_second = (int(np.sum(cell)) for cell in (one & other, one & ~other, ~one & other))
    neither = int(decided.sum()) - both - only_first - only_second
    return Cells(both, only_first, only_second, neither, int(np.sum(~decided)))


# --- claims that need a control


def _chat_claims(facts: Sequence[RunFacts], primary: Metric) -> list[Claim]:
    """Is it the chat template? What shuffled template tokens do as well, any long prefix may do."""
    alike = grouped(((one.model, one.data, one.probe, one.scoring), one) for one in facts)
    claims = []
    for (model, *_), own in alike.items():
        by_wording = grouped((one.wording, one) for one in own)
        if any(len(same) > 1 for same in by_wording.values()) or not {PLAIN, CHAT} <= by_wording.keys():
            continue
        [chat], [plain] = by_wording[CHAT], by_wording[PLAIN]
        shuffled = by_wording[SHUFFLED][0] if SHUFFLED in by_wording else None
        missing = "no control: evaluate also with --chat --shuffle-chat"
        if shuffled is not None and (unlike := _unlike(chat, shuffled)):
            shuffled, missing = None, f"{own[0].path}: the control differs in {', '.join(unlike)}, too"
        contrasts = [Contrast("chat − plain", _chat_difference(chat, plain, primary))]
        other = None if shuffled is None else _chat_difference(chat, shuffled, primary)
        contrasts.append(Contrast("chat − its shuffled tokens", other, 0, missing))
        claims.append(Claim(f"the chat template of {model} changes its answers", tuple(contrasts)))
    return claims


def _chat_difference(first: RunFacts, second: RunFacts, primary: Metric) -> Estimate:
    facts = common_facts([first, second], same_candidates=False)
    return difference(primary.name, [(1, first), (-1, second)], [first.values(primary), second.values(primary)], facts)


def _unlike(chat: RunFacts, control: RunFacts) -> list[str]:
    """Return options in which a control differs from the run it controls, in addition to the shuffling."""
    one, other = chat.options, control.options
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name) and name != "shuffle_chat")


# --- sentences


def _sentences(pair: Pair, primary: Metric) -> str:
    """Return what the pair shows, and what else differs between its runs."""
    own, decision = pair.differences[0], pair.decision
    if decision.word == UNDETERMINED:
        said = f"Whether {pair.first} and {pair.second} differ in {primary.name} {UNDETERMINED}: {decision.reason}."
        return " ".join((said, *_what_differed(pair)))
    swap = own.number.value < 0
    names = (pair.second, pair.first) if swap else (pair.first, pair.second)
    values = (own.second, own.first) if swap else (own.first, own.second)
    verbs = {
        SIGNIFICANT: f"{names[0]} {_VERBS.get(primary.name, f'has a higher {primary.name}')} than {names[1]}",
        NO_DIFFERENCE: f"{names[0]} and {names[1]} show no significant difference in {primary.name}",
        EQUIVALENT: f"{names[0]} and {names[1]} are equivalent in {primary.name}: {decision.reason}",
    }
    shown = [percent(value) if _is_share(primary) else f"{value:.3f}" for value in values]
    numbers = (
        f"{shown[0]} vs {shown[1]}, {difference_in_words(_turned(decision) if swap else decision, _is_share(primary))}"
    )
    said = f"{verbs[decision.word]} on the {pair.facts:,} facts that both answered: {numbers}."
    smallest = own.number.smallest
    if decision.word == NO_DIFFERENCE and smallest is not None:
        size = f"{100 * smallest:.1f} points" if _is_share(primary) else f"{smallest:.3f}"
        said += f" A true difference of {size} would have been found in {POWER:.0%} of cases."
    if decision.not_worse is not None and decision.word != EQUIVALENT and decision.claim.margin is not None:
        what = "is not worse" if decision.not_worse else "may be worse"
        said += f" {pair.first} {what} by more than {decision.claim.margin:g}."
    return " ".join((said, *_what_differed(pair)))


_VERBS = {"accuracy": "knows more"}
_ENDS = ("low", "high")


def _what_differed(pair: Pair) -> list[str]:
    return [f"The runs used different {', '.join(pair.differs)}."] if pair.differs else []


def _turned(decision: Decision) -> Decision:
    """Return the decision with the difference of second − first."""
    [first, *others] = decision.claim.contrasts
    assert first.estimate is not None
    claim = decision.claim._replace(
        contrasts=(first._replace(estimate=first.estimate._replace(value=-first.estimate.value)), *others)
    )
    low, high = (None if end is None else -end for end in (decision.high, decision.low))
    return decision._replace(claim=claim, low=low, high=high)


def _is_share(primary: Metric) -> bool:
    return primary.shown.endswith("%")


def _of_many(pairs: Sequence[Pair], primary: Metric) -> str:
    holds = [pair for pair in pairs if pair.decision.holds]
    said = f"{len(holds)} of {len(pairs)} pairs differ significantly in {primary.name}"
    if holds:
        most = max(holds, key=lambda pair: abs(pair.differences[0].number.value))
        other = most.second if most.higher == most.first else most.first
        decision = _turned(most.decision) if most.decision.sign < 0 else most.decision
        said += f"; the largest: {most.higher} over {other}, {difference_in_words(decision, _is_share(primary))}"
    equal = sum(pair.decision.word == EQUIVALENT for pair in pairs)
    return f"{said}{f'; {equal} are equivalent' if equal else ''}."


# --- tables


def _runs_table(found: Comparison) -> Table:
    names = [one.name for one in found.metrics]
    rows = [
        {
            "run": run.name,
            "model": run.outcome.model,
            "probe": run.outcome.probe,
            "scoring": run.outcome.scoring,
            "data": run.outcome.data,
            "path": run.outcome.path,
            "facts": run.facts,
            "unscored": run.left_out,
            **dict(zip(names, run.numbers, strict=True)),
        }
        for run in found.runs
    ]
    hidden = ("model", "probe", "scoring", "data", "path")
    return Table.of(rows, "runs", ["each run over its own facts"], main=names[0], hidden=hidden)


def _differences_table(found: Comparison) -> Table:
    rows: list[dict[str, Cell | Estimate]] = []
    for pair in found.pairs:
        own, decision = pair.differences[0], pair.decision
        rows.append(
            {
                "first": pair.first,
                "second": pair.second,
                "facts": pair.facts,
                "only first": pair.only_first,
                "only second": pair.only_second,
                "of first": own.first,
                "of second": own.second,
                "difference": own.number._replace(low=decision.low, high=decision.high),
                "p (Holm)": decision.p_value,
                "smallest": None if decision.holds else own.number.smallest,
                "verdict": f"{pair.higher} higher" if pair.higher else decision.word,
                "reason": decision.reason or None,
            }
        )
    family = len(found.pairs) + len(found.controlled)
    adjusted = f"; p by Holm and simultaneous intervals for {family} verdicts" if family > 1 else ""
    notes = [f"difference: first minus second, paired by fact{adjusted}", SMALLEST]
    if any(pair.only_first + pair.only_second for pair in found.pairs):
        notes.append("facts that only one run of a pair scored are not compared: see CSV and JSON")
    formats = dict.fromkeys(("of first", "of second", "smallest"), found.metrics[0].shown) | {"p (Holm)": ".2g"}
    hidden = ("only first", "only second", "of first", "of second", "p", "reason")
    return Table.of(rows, f"differences in {found.metrics[0].name}", notes, hidden=hidden, formats=formats)


def _secondary_table(found: Comparison) -> Table:
    rows = [
        {
            "metric": one.name,
            "first": pair.first,
            "second": pair.second,
            "of first": own.first,
            "of second": own.second,
            "difference": own.number,
            "smallest": own.number.smallest,
        }
        for place, one in enumerate(found.metrics[1:], 1)
        for pair in found.pairs
        for own in [pair.differences[place]]
    ]
    notes = ["no verdict: the primary metric decides; each interval holds by itself"]
    return Table.of(rows, "secondary metrics", notes, hidden=("p", "smallest"))


def _cells_table(found: Comparison) -> Table:
    columns = ("both right", "only first", "only second", "both wrong", "undecided")
    return Table(
        ("first", "second", *columns),
        tuple((pair.first, pair.second, *(pair.cells or (None,) * len(columns))) for pair in found.pairs),
        "right and wrong",
        notes=("number of facts; undecided: ties, or templates that disagree",),
    )


def _claims_table(decisions: Sequence[Decision]) -> Table:
    """Verdicts that need a control, with their contrasts."""
    rows = [
        {
            "claim": decision.claim.name,
            "contrast": contrast.name,
            "difference": contrast.estimate,
            "p (Holm)": decision.p_value,
            "verdict": decision.word,
        }
        for decision in decisions
        for contrast in decision.claim.contrasts
    ]
    notes = ["a claim needs every contrast to be significant; p (Holm): of the claim"]
    return Table.of(rows, "claims that need a control", notes, hidden=["p"], formats={"p (Holm)": ".2g"})


def _agreements_table(pairs: Sequence[Pair]) -> Table:
    rows = [
        {
            "first": pair.first,
            "second": pair.second,
            "facts": own.both_hit.n,
            "r": own.log_ranks,
            "r within": own.within,
            f"both hit@{AGREE_AT}": own.both_hit,
            "only first": own.only_first,
            "only second": own.only_second,
            "both miss": own.both_miss,
        }
        for pair in pairs
        if (own := pair.agreement) is not None
    ]
    notes = ("r: Pearson's correlation of log10 ranks; r within: of these minus the mean of their relation",)
    return Table.of(rows, "agreement of probes", notes, main="r")


def refusals_table(columns: Sequence[str], lines: Sequence[Sequence[Cell]]) -> Table:
    """List what could not be compared, and why."""
    return Table(tuple(columns), tuple(map(tuple, lines)), "not compared")
