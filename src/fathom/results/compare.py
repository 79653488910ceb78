"""Compare runs: the estimates of each, and the paired difference of every two on the facts that both scored.

The value of a fact is the mean over its templates, sentences and directions. Pairs are joined on ``fact_id``, so runs
that differ in model, templates, reading, answer pool, probe or world can be compared; the output names what differs.
One primary metric decides; all pairs, and claims that need a control, are one family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput, all_of
from fathom.base.options import LEAST_POINTS, separated
from fathom.base.reading.files import parted
from fathom.base.reading.replies import excerpt_of
from fathom.results.alterations import Alteration, alterations, altered_claims
from fathom.results.baselines import RunBaselines, which_is_above
from fathom.results.checking import CheckedClaim, Row, check_difference, detectable, detectable_with_seeds
from fathom.results.claims import Claim, Contrast, Decision, decide
from fathom.results.comparison import (
    AGREE_AT,
    Agreement,
    ComparedPair,
    Comparison,
    Difference,
    IncomparablePair,
    RunLine,
    agreement,
)
from fathom.results.estimates import Estimate, Noise
from fathom.results.facts import (
    CHAT,
    PLAIN,
    SHUFFLED,
    UNALTERED,
    WRITTEN,
    RunFacts,
    Shared,
    common_facts,
    difference,
    over_seeds,
)
from fathom.results.loading import AnyRun, distinguished, open_runs, read_runs, shared_templates
from fathom.results.metrics.table import METRICS, Metric, metric
from fathom.results.rows import Floats, grouped

COMPARED = ("accuracy", "hits@10", "mrr")
"""Metrics that are compared by default; the first decides."""
BASELINES, OVER_SEEDS = "baselines", "over seeds"
"""Families of claims in addition to that of the pairs."""
_OPTION_NAMES = {
    **dict.fromkeys(("templates", "own_templates", "tail_template"), "templates"),
    **dict.fromkeys(("pool", "candidates", "add_candidates", "single_token"), "answer pools"),
    "system": "system messages",
    "chat_user": "user turns",
    "chat_arguments": "chat arguments",
    **dict.fromkeys(("reduction", "score", "pll"), "scorings"),
    "reading": "readings",
    "alter": "sentences",
    "shots": "numbers of examples",
}
"""Options that pairing by fact leaves: those that select facts, such as ``--limit``, cannot explain a difference."""
UNKNOWN = "unknown"
_DEFAULTS = {"system": "none", "chat_user": "default", "chat_arguments": "none", "alter": UNALTERED, "pool": None}


def compare(
    runs: Sequence[AnyRun],
    scoring: Sequence[str] = (),
    metrics: Sequence[str] = COMPARED,
    cluster: str = "",
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
    seeds: int = 1,
    check: bool = False,
) -> Comparison:
    """Compare runs, all pairs of them.

    :param scoring: which to take of runs that have several; more than one of a run are compared as well.
    :param metrics: "accuracy", "mrr", "hits@K", or others whose values are of ranks alone. The first decides.
    :param cluster: sampling unit of the intervals; see :mod:`fathom.results.samples`.
    :param to_first: only the pairs with the first run.
    :param margin: smallest difference of the primary metric that matters, in points: 2 is 0.02.
    :param detect: report how many facts, relations and seeds would detect this difference, in points, in 80 % of cases.
    :param seeds: the runs are of two models with so many training seeds each, all of the first model first.
    :param check: simulate how often the claims would be wrong of these facts, see :mod:`fathom.results.checking`.
    :raises BadInput: unfinished runs, one given twice, scorings not chosen, metrics that are no mean over facts; no
        pair that can be compared; a difference that cannot be meant in points.

    >>> references = ["reference:SmolLM2-135M-Instruct", "reference:Gemma-3-270m"]
    >>> print(*fathom.compare(references).answer)  # doctest: +ELLIPSIS
    Gemma-3-270m knows more than SmolLM2-135M-Instruct on the 781 facts that both runs scored: ...
    """
    scoring, metrics = separated(scoring), separated(metrics)
    margin, detect = all_of(partial(_from_points, "--margin", margin), partial(_from_points, "--detect", detect))
    paired: list[Metric] = []
    shared: Shared = {}
    folders = open_runs(runs)
    templates = shared_templates(folders)
    _, read = all_of(
        lambda: paired.extend(map(paired_metric, dict.fromkeys(metrics))),
        lambda: read_runs(
            folders, scoring, cluster, lambda facts: (_floor(facts), facts.release(paired, shared)), templates=templates
        ),
    )
    floors, facts = zip(*read, strict=True)
    changed = alterations(folders, scoring, cluster) if any(run.alteration != UNALTERED for run in facts) else []
    compared = compare_facts(facts, paired, to_first, margin, detect, changed, seeds, floors, check)
    return replace(compared, templates=templates)


def _from_points(option: str, points: float | None) -> float | None:
    """:raises BadInput: no difference in points, such as the share 0.02 instead of 2 points."""
    if points is None:
        return None
    is_number = isinstance(points, int | float) and not isinstance(points, bool)
    if not is_number or not LEAST_POINTS <= points <= 100:
        raise BadInput(f"{option} {points}: expected points from {LEAST_POINTS} to 100; 2 points are a share of 0.02")
    return points / 100


def _floor(facts: RunFacts) -> Claim | None:
    """Declare that a run is above the baselines that need no scores of candidates."""
    claim = RunBaselines(facts, facts.rows).claim(1, facts.scored_facts)
    return claim and claim._replace(family=BASELINES)


def compare_facts(
    facts: Sequence[RunFacts],
    metrics: Sequence[Metric],
    to_first: bool = False,
    margin: float | None = None,
    detect: float | None = None,
    changed: Sequence[Alteration] = (),
    seeds: int = 1,
    floors: Sequence[Claim | None] = (),
    check: bool = False,
    names: Sequence[str] = (),
) -> Comparison:
    """Compare runs that were read.

    :param names: of the runs, by default those that :func:`distinguished` returns.
    :param metrics: whose values each of them has; the first decides.
    :param changed: runs with altered sentences against the unmodified ones.
    :param margin: as a share, like *detect*: 0.02 is 2 points.
    :param floors: that each run is above its baselines, a family of their own.
    :raises BadInput: no pair can be compared.
    """
    primary = metrics[0]
    sides = list(zip(names or distinguished([outcome.distinguishing for outcome in facts]), facts, strict=True))
    two = [(first, second) for first, second in combinations(sides, 2) if not to_first or first is sides[0]]
    trained = _over_seeds(sides, seeds, primary) if seeds > 1 else None
    two = two if trained is None else list(zip(sides[:seeds], sides[seeds:], strict=True))
    tried = [_join(first, second, metrics) for first, second in two]
    joined = [pair for pair in tried if isinstance(pair, _RunPair)]
    refused = tuple(pair for pair in tried if isinstance(pair, IncomparablePair))
    if not joined:
        raise BadInput(dict.fromkeys(pair.why for pair in refused))
    claims: dict[tuple[str, ...], Claim | None] = {
        ("pair", *pair.names): _differ(pair.names, primary, pair.differences[0].number, margin=margin)
        for pair in joined
    }
    further = [*_chat_claims(facts, primary), *altered_claims(changed)]  # two may have the same name
    controlled: dict[tuple[str, ...], Claim | None] = {
        ("controlled", str(number)): claim for number, claim in enumerate(further)
    }
    claims |= controlled
    if floors:
        claims |= {("floor", name): floor for (name, _), floor in zip(sides, floors, strict=True)}
    if trained is not None:
        claims["seeds",] = _differ(trained[:2], primary, trained[2], f" over {seeds} seeds", margin, OVER_SEEDS)
    decisions = decide(claims)
    above = {name: decisions.get(("floor", name)) for name, _ in sides}
    pairs = [pair.pair(decisions["pair", *pair.names], above) for pair in joined]
    plans: list[Row] = []
    if detect is not None and trained is not None:
        plans = detectable_with_seeds(*trained, detect)
    elif detect is not None:
        plans = [detectable(*pair.names, pair.differences[0].number, detect) for pair in joined]
    over = () if trained is None else (decisions["seeds",],)
    lines = tuple(_run_line(*side, metrics) for side in sides)
    controls = tuple(decisions[key] for key in controlled)
    if check and trained is not None:
        raise BadInput("--check simulates pairs of runs: drop --seeds, or --check")
    size = len(joined) + len(further)
    checks = [
        checked
        for joint, pair in zip(joined, pairs, strict=True)
        for checked in (joint.check(primary, pair.decision, size) if check else ())
    ]
    return Comparison(
        lines, tuple(metrics), tuple(pairs), refused, controls, tuple(changed), tuple(plans), over, tuple(checks)
    )


def _differ(
    names: tuple[str, str],
    primary: Metric,
    number: Estimate,
    seeds: str = "",
    margin: float | None = None,
    family: str = "",
) -> Claim:
    contrast = Contrast(f"{names[0]} − {names[1]}" if seeds else primary.name, number)
    return Claim(f"{names[0]} and {names[1]} differ in {primary.name}{seeds}", (contrast,), margin, family=family)


def _over_seeds(sides: Sequence[tuple[str, RunFacts]], seeds: int, primary: Metric) -> tuple[str, str, Estimate, Noise]:
    """Compare two models, each trained with several seeds: all runs of the first model, then all of the second.

    :raises BadInput: another number of runs.
    """
    if len(sides) != 2 * seeds:
        raise BadInput(f"--seeds {seeds}: expected {2 * seeds} runs, {seeds} of each model; found {len(sides)}")
    trainings = [[(1, sides[at][1]), (-1, sides[at + seeds][1])] for at in range(seeds)]
    number, noise = over_seeds(primary.name, trainings, lambda side: side.values(primary), primary.limits)
    return sides[0][0], sides[seeds][0], number.shown(f"+{primary.shown}"), noise


def paired_metric(name: str) -> Metric:
    """Find a metric of facts. :raises BadInput: unknown, or not a mean over facts of values of ranks."""
    found = metric(name)
    if not found.has_baselines:
        names = ", ".join(entry.name for entry in METRICS.entries() if entry.has_baselines)
        raise BadInput(f"metric '{name}' cannot be paired by fact; there is {names} and hits@K")
    return found


def _run_line(name: str, outcome: RunFacts, metrics: Sequence[Metric]) -> RunLine:
    facts = outcome.scored_facts
    sample = outcome.sample(facts)
    numbers = (outcome.mean(entry.name, outcome.values(entry), facts, sample, entry.shown) for entry in metrics)
    return RunLine(name, outcome, len(facts), len(outcome.left_out), tuple(numbers))


class _RunPair(NamedTuple):
    """Two runs on the facts that both scored. :param differences: of each metric."""

    names: tuple[str, str]
    runs: tuple[RunFacts, RunFacts]
    facts: Sequence[str]
    differences: tuple[Difference, ...]

    def check(self, primary: Metric, decision: Decision, family: int) -> list[CheckedClaim]:
        """Simulate how often the claims on the primary metric would be wrong; nothing where it is undefined."""
        first, second = (side.values(primary)[side.at(self.facts)] for side in self.runs)
        if np.isnan(first + second).any():
            return []
        shown = decision.by_margin.word if decision.by_margin is not None else ""
        sample, margin = self.runs[0].sample(self.facts), decision.claim.margin
        return check_difference(self.names, first, second, sample, margin, family, shown)

    def pair(self, decision: Decision, above: Mapping[str, Decision | None]) -> ComparedPair:
        """Add the verdict, and what else the comparison shows.

        :param above: whether each run is above its baselines, if known.
        """
        return ComparedPair(
            *self.names,
            len(self.facts),
            len(self.runs[0].scored_facts) - len(self.facts),
            len(self.runs[1].scored_facts) - len(self.facts),
            self.differences,
            count_right(*[side.hits(1)[side.at(self.facts)] for side in self.runs]),
            _agreement(*self.runs),
            what_differs(*self.runs, self.facts),
            decision,
            self.runs[0].model == self.runs[1].model,
            which_is_above([above.get(name) for name in self.names], self.names),
        )


def _join(
    first: tuple[str, RunFacts], second: tuple[str, RunFacts], metrics: Sequence[Metric]
) -> _RunPair | IncomparablePair:
    names, runs = (first[0], second[0]), (first[1], second[1])
    try:
        # Other candidates are the question if the model is the same: how much does a larger pool cost?
        facts = common_facts(runs, same_candidates=runs[0].content_hash != runs[1].content_hash)
    except BadInput as error:
        return IncomparablePair(*names, str(error))
    sample, differences = runs[0].sample(facts), []
    for entry in metrics:
        values = [side.values(entry) for side in runs]
        first_mean, second_mean = (
            float(value[side.at(facts)].mean()) for value, side in zip(values, runs, strict=True)
        )
        number = difference(entry.name, *runs, values, facts, sample, f"+{entry.shown}")
        differences.append(Difference(first_mean, second_mean, number))
    return _RunPair(names, runs, facts, tuple(differences))


def what_differs(first: RunFacts, second: RunFacts, facts: Sequence[str]) -> tuple[str, ...]:
    """Return in what but the model two runs differ, in words such as "templates"."""
    if first.probe != second.probe:
        return (f"probes ({first.probe} and {second.probe})",)
    spaces = [[side.spaces[place] for place in side.at(facts).tolist()] for side in (first, second)]
    sizes = [f"{side.sizes[side.at(facts)].mean():,.0f}" for side in (first, second)]
    words = {
        "data sets": (first.data, second.data),
        "readings": (first.reading, second.reading),
        "answer pools": (sizes[0], f"{sizes[1]} candidates") if spaces[0] != spaces[1] else ("", ""),
        "scorings": (first.scoring, second.scoring),
        "chat templates": (first.wording, second.wording),
    }
    differing = {word: f"{word} ({left} and {right})" for word, (left, right) in words.items() if left != right}
    options = [{**_DEFAULTS, **side.options} for side in (first, second)]
    for name, word in _OPTION_NAMES.items():
        values = [of_side.get(name) for of_side in options]
        if values[0] != values[1] and all(name in of_side for of_side in options):
            both = word if word == "answer pools" else f"{word} ({' and '.join(map(_value, values))})"
            differing.setdefault(word, both)
    same_model = (first.model, first.content_hash) == (second.model, second.content_hash)
    asked_alike = all(options[0].get(name) == options[1].get(name) for name in ("chat", "system", "chat_arguments"))
    if same_model and asked_alike and first.chat_frame != second.chat_frame:
        there, here = parted(first.chat_frame or UNKNOWN, second.chat_frame or UNKNOWN)
        differing["chats"] = f"what the chat template writes ({excerpt_of(there)} and {excerpt_of(here)})"
    return tuple(differing.values())


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "all"
    return {"True": "yes", "False": "no", "None": "all"}.get(str(value), str(value))


def _agreement(first: RunFacts, second: RunFacts) -> Agreement | None:
    another = (first.probe, first.scoring) != (second.probe, second.scoring)
    if first.model != second.model or not another or WRITTEN in (first.why_undefined, second.why_undefined):
        return None
    try:
        return agreement(first, second, AGREE_AT)._replace(points=[])  # which no table here shows
    except BadInput:  # both searches stopped too early
        return None


def count_right(first: Floats, second: Floats) -> tuple[int, ...] | None:
    """Count facts that both, one or neither has right, see :class:`ComparedPair`.

    :param first: Hits@1 of the facts, shape (n); *second* of the same facts.
    """
    if np.isnan(first + second).any():
        return None
    decided = np.isin(first, (0, 1)) & np.isin(second, (0, 1))
    of_first, of_second = first == 1, second == 1
    cells = (of_first & of_second, of_first & ~of_second, ~of_first & of_second, ~of_first & ~of_second)
    return *(int(np.sum(cell & decided)) for cell in cells), int(np.sum(~decided))


# --- claims that need a control


def _chat_claims(facts: Sequence[RunFacts], primary: Metric) -> list[Claim]:
    """Declare that chat templates change answers; shuffled template tokens are the control."""
    alike = grouped(((outcome.model, outcome.data, outcome.probe, outcome.scoring), outcome) for outcome in facts)
    claims = []
    for (model, *_), outcomes in alike.items():
        by_wording = grouped((outcome.wording, outcome) for outcome in outcomes)
        if any(len(same) > 1 for same in by_wording.values()) or not {PLAIN, CHAT} <= by_wording.keys():
            continue
        [chat], [plain] = by_wording[CHAT], by_wording[PLAIN]
        shuffled = by_wording[SHUFFLED][0] if SHUFFLED in by_wording else None
        missing = "no control: evaluate also with --chat --shuffle-chat"
        names = sorted({*chat.options, *shuffled.options} - {"shuffle_chat"}) if shuffled is not None else []
        unlike = [name for name in names if shuffled and chat.options.get(name) != shuffled.options.get(name)]
        if unlike:
            shuffled, missing = None, f"{outcomes[0].path}: the control differs in {', '.join(unlike)}, too"
        control = None if shuffled is None else _chat_difference(chat, shuffled, primary)
        contrasts = (
            Contrast("chat − plain", _chat_difference(chat, plain, primary)),
            Contrast("chat − its shuffled tokens", control, 0, missing),
        )
        name = f"The chat template of {model} changes its answers"
        otherwise = f"{name}, but not significantly more than its shuffled tokens do"
        claims.append(Claim(name, contrasts, otherwise=otherwise))
    return claims


def _chat_difference(first: RunFacts, second: RunFacts, primary: Metric) -> Estimate:
    facts = common_facts([first, second], same_candidates=False)
    return difference(primary.name, first, second, [first.values(primary), second.values(primary)], facts)
