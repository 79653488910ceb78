"""Compare runs: the estimates of each, and the paired difference of every two on the facts that both scored.

The value of a fact is the mean over its templates, sentences and directions. Pairs are joined on ``fact_id``, so runs
that differ in model, templates, reading, answer pool, probe or world can be compared; the output names what differs.
One primary metric decides; all pairs, and claims that need a control, are one family.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np

from fathom.errors import BadInput, all_of
from fathom.metrics.table import METRICS, Metric, metric
from fathom.options import separated
from fathom.results.agreements import Agreement, agreement
from fathom.results.alterations import Alteration, alterations, altered_claims
from fathom.results.claims import (
    Claim,
    Contrast,
    Decision,
    decide,
)
from fathom.results.comparison import AGREE_AT, Cells, Comparison, Difference, NotCompared, OfRun, Pair
from fathom.results.estimates import Estimate, Noise
from fathom.results.facts import (
    AS_IT_IS,
    CHAT,
    PLAIN,
    SHUFFLED,
    WRITTEN,
    RunFacts,
    Shared,
)
from fathom.results.loading import read_runs
from fathom.results.names import distinguished
from fathom.results.pairing import common_facts, difference, over_seeds
from fathom.results.power import Detectable, detectable, detectable_with_seeds
from fathom.results.rows import Floats, grouped
from fathom.store.folder import RunFolder

Value = TypeVar("Value")
COMPARED = ("accuracy", "hits@10", "mrr")
"""Metrics that are compared by default; the first decides."""
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


def compare(
    runs: Sequence[RunFolder],
    scoring: Sequence[str] = (),
    metrics: Sequence[str] = COMPARED,
    cluster: str = "",
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
    seeds: int = 1,
) -> Comparison:
    """Compare runs, all pairs of them.

    :param scoring: which to take of runs that have several; with more than one of a run, these are compared, too.
    :param metrics: "accuracy", "mrr", "hits@K", or others whose values are of ranks alone. The first decides.
    :param cluster: sampling unit of the intervals; see :mod:`fathom.results.samples`.
    :param to_first: only the pairs with the first run.
    :param margin: differences smaller than this do not matter, in units of the primary metric: 0.02 is 2 points.
    :param detect: say how many facts, relations and seeds would detect this difference in 80 % of cases.
    :param seeds: the runs are of two models, each trained with so many seeds: first all of one, then all of the other.
    :raises BadInput: unfinished runs, one given twice, scorings not chosen, metrics that are no mean over facts; no
        pair that can be compared.
    """
    scoring, metrics = separated(scoring), separated(metrics)
    if detect is not None and not detect > 0:
        raise BadInput("--detect: expected a difference above 0")
    wanted: list[Metric] = []
    shared: Shared = {}
    _, facts = all_of(
        lambda: wanted.extend(map(_metric, dict.fromkeys(metrics))),
        lambda: read_runs(runs, scoring, cluster, lambda facts: facts.release(wanted, shared)),
    )
    changed = alterations(runs, scoring, cluster) if any(one.alteration != AS_IT_IS for one in facts) else []
    return compare_facts(facts, wanted, to_first, margin, detect, changed, seeds)


def compare_facts(
    facts: Sequence[RunFacts],
    metrics: Sequence[Metric],
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
    changed: Sequence[Alteration] = (),
    seeds: int = 1,
) -> Comparison:
    """Compare runs that were read.

    :param metrics: whose values each of them has; the first decides.
    :param changed: runs with altered sentences against the unmodified ones.
    :param seeds: of each of two models; 1: runs are compared as they are.
    :raises BadInput: no pair can be compared.
    """
    sides = list(zip(names_of_runs(facts), facts, strict=True))
    lines = tuple(_of_run(*own, metrics) for own in sides)
    two = [(one, other) for one, other in combinations(sides, 2) if not to_first or one is sides[0]]
    trained = _over_seeds(sides, seeds, metrics[0]) if seeds > 1 else None
    two = two if trained is None else list(zip(sides[:seeds], sides[seeds:], strict=True))
    tried = [_join(one, other, metrics) for one, other in two]
    joined = [one for one in tried if isinstance(one, _Joined)]
    refused = [one for one in tried if isinstance(one, NotCompared)]
    if not joined:
        raise BadInput(dict.fromkeys(one.why for one in refused))
    controlled = [*_chat_claims(facts, metrics[0]), *altered_claims(changed)]
    decisions = decide([*(one.claim(metrics[0], margin) for one in joined), *controlled])
    pairs = [one.pair(decision) for one, decision in zip(joined, decisions, strict=False)]
    plans: list[Detectable] = []
    if detect is not None and trained is not None:
        plans = detectable_with_seeds(*trained.names, trained.number, trained.noise, detect)
    elif detect is not None:
        plans = [detectable(one.first, one.second, one.differences[0].number, detect) for one in pairs]
    controls = tuple(decisions[len(pairs) :])
    over = () if trained is None else tuple(decide([trained.claim(metrics[0])]))
    every = (tuple(metrics), tuple(pairs), tuple(refused), controls, tuple(changed), tuple(plans), over)
    return Comparison(lines, *every)


class _Trained(NamedTuple):
    """The difference of two models over facts and seeds."""

    names: tuple[str, str]
    number: Estimate
    noise: Noise

    def claim(self, primary: Metric) -> Claim:
        """Declare that the models differ."""
        first, second = self.names
        name = f"{first} and {second} differ in {primary.name} over {self.noise.seeds} seeds"
        return Claim(name, (Contrast(f"{first} − {second}", self.number),))


def _over_seeds(sides: Sequence[tuple[str, RunFacts]], seeds: int, primary: Metric) -> _Trained:
    """Compare two models, each trained with several seeds.

    :param sides: all runs of the first model, then all of the second, seeds in the same order.
    :raises BadInput: another number of runs.
    """
    if len(sides) != 2 * seeds:
        raise BadInput(f"--seeds {seeds}: expected {2 * seeds} runs, {seeds} of each model; found {len(sides)}")
    trainings = [[(1, sides[at][1]), (-1, sides[at + seeds][1])] for at in range(seeds)]
    number, noise = over_seeds(primary.name, trainings, lambda side: side.values(primary), primary.limits)
    return _Trained((sides[0][0], sides[seeds][0]), number.shown(f"+{primary.shown}"), noise)


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
    facts = outcome.scored_facts
    sample = outcome.sample(facts)
    numbers = (outcome.mean(one.name, outcome.values(one), facts, sample, one.shown) for one in wanted)
    return OfRun(name, outcome, len(facts), len(outcome.left_out), tuple(numbers))


class _Joined(NamedTuple):
    """Two runs on the facts that both scored. :param differences: of each metric."""

    names: tuple[str, str]
    runs: tuple[RunFacts, RunFacts]
    facts: Sequence[str]
    differences: tuple[Difference, ...]

    def claim(self, primary: Metric, margin: float | None) -> Claim:
        """Declare that they differ."""
        contrast = Contrast(primary.name, self.differences[0].number)
        return Claim(f"{self.names[0]} and {self.names[1]} differ in {primary.name}", (contrast,), margin)

    def pair(self, decision: Decision) -> Pair:
        """Return what the comparison shows of them."""
        first, second = self.runs
        return Pair(
            *self.names,
            len(self.facts),
            len(first.scored_facts) - len(self.facts),
            len(second.scored_facts) - len(self.facts),
            self.differences,
            cells_of(*(side.hits(1)[side.at(self.facts)] for side in self.runs)),
            _agreement(first, second),
            what_differs(first, second, self.facts),
            decision,
        )


def _join(one: tuple[str, RunFacts], other: tuple[str, RunFacts], wanted: Sequence[Metric]) -> _Joined | NotCompared:
    (name, first), (second_name, second) = one, other
    try:
        # Other candidates are the question if the model is the same: how much does a larger pool cost?
        facts = common_facts([first, second], same_candidates=first.content_hash != second.content_hash)
    except BadInput as error:
        return NotCompared(name, second_name, str(error))
    sample = first.sample(facts)

    def differing(own: Metric) -> Difference:
        values = [side.values(own) for side in (first, second)]
        means = (float(value[side.at(facts)].mean()) for side, value in zip((first, second), values, strict=True))
        signed, form = [(1, first), (-1, second)], f"+{own.shown}"
        first_mean, second_mean = means
        return Difference(first_mean, second_mean, difference(own.name, signed, values, facts, sample, form))

    return _Joined((name, second_name), (first, second), facts, tuple(map(differing, wanted)))


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
