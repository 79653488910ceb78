"""In which ways does a model know a fact? Runs of one model by different probes, or in both directions, joined by fact.

Ranking an answer first, choosing it among options and generating it are different abilities, and so is the reverse
direction (Berglund et al. 2024). Each fact falls into one cell. For a planted model the cells are compared with its
design: facts that it never read must be known every way no more often than by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.results import estimates
from fathom.results.baselines import RANDOM, BaselineComparison, RunBaselines, above_chance
from fathom.results.claims import Claim, Contrast, Decision, decide, percent, sentences
from fathom.results.estimates import MINUS, Estimate, combined
from fathom.results.facts import RunFacts, common_facts
from fathom.results.loading import Design, check_same, design_file, distinguished, read_design, read_runs
from fathom.results.rows import CHOSEN, GENERATED, Floats, grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.options import ProfileOptions

EVERY, NONE, RECOGNISED = "known every way", "known in no way", "recognised but not generated"
FORWARD, REVERSE = "one direction only: forward", "one direction only: reverse"
HEAD = "head"
"""Direction of queries for the subject."""
_HINTS = {CHOSEN: "fathom probe choice", GENERATED: "fathom probe generation", "reverse": "--reverse"}


class Way(NamedTuple):
    """One way of asking, over the facts in common.

    :param kind: how the model answers. :param reverse: whether the subject is asked for.
    :param is_known: 1 for each known fact, else 0.
    :param baselines: expected Hits@1 of each baseline, NaN where unknown.
    :param share: of the known facts. :param lacking: number of facts that only other ways scored.
    :param note: which of several scorings of the run it takes; "" if the run has one or the user chose it.
    """

    name: str
    kind: str
    reverse: bool
    is_known: Floats
    baselines: Mapping[str, Floats]
    share: Estimate
    lacking: int
    recipe: str
    note: str = ""


class Pair(NamedTuple):
    """Two ways. :param only_first: share of facts known by the first alone; *only_second* likewise."""

    first: str
    second: str
    only_first: Estimate
    only_second: Estimate
    claim: Claim
    decision: Decision | None = None


class Checked(NamedTuple):
    """The cells against a design.

    :param exposed: rows of the cells of facts that were stated equally often, in the same directions.
    :param control: claim that unread facts are known every way more often than by chance; None without unread facts.
    :param left_out: facts that the design lacks, and those taught as questions.
    """

    exposed: list[dict[str, Any]]
    unread: Estimate | None
    control: Claim | None
    left_out: tuple[int, int]


class Profile(NamedTuple):
    """:param cells: label and share. :param of_facts: cell of each fact. :param left_out: facts that a run lacks.
    :param control: that unread facts are not known every way more often than by chance; None without unread facts.
    """

    model: str
    ways: list[Way]
    cells: list[tuple[str, Estimate]]
    pairs: list[Pair]
    facts: Sequence[str]
    of_facts: list[str]
    left_out: int
    checked: Checked | None
    control: Decision | None


def analyse(runs: Sequence[RunFolder], options: ProfileOptions = ProfileOptions()) -> Profile:
    """Assign each fact that all runs scored to a cell.

    :param runs: of one model.
    :raises BadInput: several models, a run twice, or no fact in common.
    """
    check_same(runs, ("model",))
    whole = read_runs(runs, options.scoring, options.cluster, lambda outcome: outcome, fewest=1, first=True)
    sides = [part for outcome in whole for part in _by_direction(outcome)]
    facts = common_facts(sides, same_candidates=False)
    every = set[str]().union(*(side.facts for side in sides))
    ways = list(_ways(sides, facts, options, every))
    file = options.design or next(filter(None, map(design_file, runs)), None)
    kinds = [_cell(pattern, ways) for pattern in zip(*(way.is_known for way in ways), strict=True)]
    labels, sample = np.array(kinds), sides[0].sample(facts)
    recipe = partial(combined, recipes=[way.recipe for way in ways], sign=" and ")
    shares = {label: estimates.mean(labels == label, sample, recipe(label)) for label in _labels(kinds, ways)}
    pairs = [_pair(*two, sides[0], facts) for two in combinations(ways, 2)]
    checked = _check(read_design(file), ways, labels, sides[0], facts, list(shares)) if file else None
    claims: dict[object, Claim | None] = {(pair.first, pair.second): pair.claim for pair in pairs}
    decisions = decide(claims | {"control": checked and checked.control})
    pairs = [pair._replace(decision=decisions[pair.first, pair.second]) for pair in pairs]
    left_out, control = len(every) - len(facts), decisions.get("control")
    return Profile(sides[0].model, ways, list(shares.items()), pairs, facts, kinds, left_out, checked, control)


def _by_direction(outcome: RunFacts) -> Iterator[RunFacts]:
    """Yield the queries for answers, and those for subjects, if there are any."""
    rows = outcome.rows
    asks_heads = np.array([rows.directions[query] == HEAD for query in rows.query[outcome.places].tolist()])
    for name, mask in (("tail", ~asks_heads), (HEAD, asks_heads)):
        if mask.any():
            part = "" if mask.all() else f"direction:{name}"
            yield RunFacts(outcome.run, rows, outcome.scoring, outcome.model, outcome.places[mask], part)


def _ways(sides: Sequence[RunFacts], facts: Sequence[str], options: ProfileOptions, every: set[str]) -> Iterator[Way]:
    reverse = [side.rows.directions[side.queries[0]] == HEAD for side in sides]
    kinds = [side.rows.declared.way for side in sides]
    titles = [f"{kind}, reverse" if back else kind for kind, back in zip(kinds, reverse, strict=True)]
    names = distinguished([{**side.distinguishing, "model": title} for title, side in zip(titles, sides, strict=True)])
    for name, kind, back, side in zip(names, kinds, reverse, sides, strict=True):
        at = side.at(facts)
        is_known = (side.hits(1)[at] > options.above).astype(float)
        baselines = {title: values[at] for title, values in RunBaselines(side).hits(1).items()}
        baselines[RANDOM] = np.nan_to_num(baselines[RANDOM])  # without candidates nothing is guessed
        share = estimates.mean(is_known, side.sample(facts), side.recipe(f"known above {options.above:g}"))
        lacking = len(every.difference(side.scored_facts))
        unused = [] if side.scoring in options.scoring else sorted({*side.rows.scorings} - {side.scoring})
        note = f"{name}: by {side.scoring}, not {', '.join(unused)}; --scoring takes another" if unused else ""
        yield Way(name, kind, back, is_known, baselines, share, lacking, side.recipe(""), note)


def _cell(pattern: Sequence[float], ways: Sequence[Way]) -> str:
    """Return the cell of a fact. :param pattern: 1 for each way in which it is known."""
    if all(pattern) or not any(pattern):
        return EVERY if pattern[0] else NONE
    flags = list(map(bool, pattern))
    reverse, generated = [way.reverse for way in ways], [way.kind == GENERATED for way in ways]
    if flags in (reverse, [not back for back in reverse]):
        return REVERSE if flags == reverse else FORWARD
    if flags == [not writes for writes in generated]:
        return RECOGNISED
    return f"only {', '.join(way.name for way, flag in zip(ways, flags, strict=True) if flag)}"


def _labels(kinds: Sequence[str], ways: Sequence[Way]) -> list[str]:
    """Return the cells in the order of the table: the named ones, then others by size, then "in no way"."""
    possible = {EVERY: True, RECOGNISED: 0 < sum(way.kind == GENERATED for way in ways) < len(ways)}
    named = [name for name, shown in possible.items() if shown or name in kinds]
    others = {name for name in kinds if name not in (*named, NONE)}
    return [*named, *sorted(others, key=lambda name: (-kinds.count(name), name)), NONE]


def _pair(first: Way, second: Way, side: RunFacts, facts: Sequence[str]) -> Pair:
    sample, name = side.sample(facts), f"{first.name}{MINUS}{second.name}"
    recipe = partial(combined, recipes=[first.recipe, second.recipe])
    plain = estimates.difference(first.is_known, second.is_known, sample, recipe(name))
    beyond_first, beyond_second = (way.is_known - way.baselines[RANDOM] for way in (first, second))
    beyond = estimates.difference(beyond_first, beyond_second, sample, recipe(f"{name}, beyond guessing"), (-2.0, 2.0))
    alone = first.is_known * (1 - second.is_known), second.is_known * (1 - first.is_known)
    only_first, only_second = (estimates.mean(part, sample, recipe(f"only one of {name}")) for part in alone)
    claim = Claim(f"{name}, beyond guessing", (Contrast("beyond guessing", beyond), Contrast("difference", plain)))
    return Pair(first.name, second.name, only_first, only_second, claim)


def _check(
    design: Design, ways: Sequence[Way], labels: np.ndarray, side: RunFacts, facts: Sequence[str], cells: Sequence[str]
) -> Checked:
    """Compare the cells of facts with how often these were stated.

    :raises BadInput: the design has none of the facts.
    """
    designed = [at for at, fact in enumerate(facts) if fact in design]
    if not designed:
        raise BadInput(f"the design has none of the {len(facts)} facts, such as {facts[0]}: is it of other data?")
    untaught = [at for at in designed if not design[facts[at]].taught]
    read = ((at, design[facts[at]]) for at in untaught)
    groups = grouped(((row.exposures, " and ".join(row.directions) if row.exposures else ""), at) for at, row in read)
    exposed: list[dict[str, Any]] = []
    for (exposures, stated), places in sorted(groups.items()):
        sample = side.sample([facts[at] for at in places])
        line = f"|exposures:{exposures}"
        about = {"exposures": exposures, "stated": stated}
        exposed += [
            {**about, "cell": cell, "facts": len(places), "share": estimates.mean(labels[places] == cell, sample, made)}
            for cell in cells
            for made in [side.recipe(cell) + line]
        ]
    unread = [at for at in untaught if design[facts[at]].exposures == 0]
    left_out = len(facts) - len(designed), len(designed) - len(untaught)
    if not unread:
        return Checked(exposed, None, None, left_out)
    every_way = (labels[unread] == EVERY).astype(float)
    sample = side.sample([facts[at] for at in unread])
    compared = []
    for name in dict.fromkeys(name for way in ways for name in way.baselines):
        each = np.array([way.baselines[name][unread] for way in ways if name in way.baselines])
        if not np.isnan(each).all(axis=0).any():
            chance = np.nanprod(each, axis=0)  # an upper bound if some ways lack the baseline
            line = side.recipe(f"{EVERY}{MINUS}{name}") + "|exposures:0"
            compared_to = estimates.over_baseline(every_way, chance, sample, line, fixed=name == RANDOM)
            compared.append(BaselineComparison(name, *compared_to))
    claim = above_chance("unread facts are known every way more often than by chance", compared)
    return Checked(exposed, estimates.mean(every_way, sample, side.recipe(EVERY) + "|exposures:0"), claim, left_out)


# --- in words


def conclude(findings: Profile) -> list[str]:
    parts = [f"{percent(share.value)} {label}" for label, share in findings.cells if share.value or label == EVERY]
    spoken = [f"{findings.model}: of {len(findings.facts):,} facts, {', '.join(parts)}."]
    checked = findings.checked
    spoken += sentences([pair.decision for pair in findings.pairs if pair.decision]) if findings.pairs else []
    if checked is None:
        return spoken
    if checked.unread is None or findings.control is None:
        return [*spoken, "The design has no unread facts here, so there is no control."]
    control = "more often than by chance: they do not serve as a control"
    if not findings.control.holds:
        control = f"not significantly more often than by chance ({findings.control.word})"
    return [*spoken, f"Unread facts are known every way in {checked.unread} of cases, {control}."]


def tables(findings: Profile) -> list[Table]:
    kinds = {way.kind for way in findings.ways} | {"reverse" for way in findings.ways if way.reverse}
    missing = [f"{kind} ({hint})" for kind, hint in _HINTS.items() if kind not in kinds]
    notes = ["guessing: expected share of random guessing"]
    notes += [f"not among the runs: {', '.join(missing)}"] if missing else []
    notes += [way.note for way in findings.ways if way.note]
    lacking = ", ".join(f"{way.name} {way.lacking}" for way in findings.ways if way.lacking)
    notes += [f"{findings.left_out} facts that not all runs scored are excluded: {lacking}"] if lacking else []
    ways = [(way.name, way.share.n, way.share, float(way.baselines[RANDOM].mean())) for way in findings.ways]
    cells = [(label, round(share.value * share.n), share) for label, share in findings.cells]
    made = [
        Table.of(ways, "ways", notes, columns=("way", "facts", "known", "guessing"), formats={"guessing": ".1%"}),
        Table.of(cells, "cells", columns=("cell", "facts", "share")),
    ]
    if findings.pairs:
        pairs = [
            (
                *(pair.first, pair.second, pair.only_first, pair.only_second),
                *(pair.decision.estimate, pair.decision.word, pair.decision.reason or None),
            )
            for pair in findings.pairs
            if pair.decision is not None
        ]
        of_pairs = ("first", "second", "only first", "only second", "difference", "verdict", "reason")
        legend = "difference: first minus second, each less the expected share of random guessing"
        made.append(Table.of(pairs, "pairs of ways", [legend], columns=of_pairs, main="difference"))
    if findings.checked:
        absent, taught = findings.checked.left_out
        notes = [f"{absent} facts that the design lacks are excluded"] if absent else []
        notes += [f"{taught} facts that were taught as questions are excluded"] if taught else []
        hidden = () if any(row["stated"] for row in findings.checked.exposed) else ("stated",)
        made.append(Table.of(findings.checked.exposed, "cells by exposures", notes, hidden=hidden))
    return made


def files(findings: Profile) -> dict[str, Table]:
    flags = zip(*(way.is_known.astype(bool).tolist() for way in findings.ways), strict=True)
    rows = [
        (fact, cell, *of_fact) for fact, cell, of_fact in zip(findings.facts, findings.of_facts, flags, strict=True)
    ]
    return {"profile-facts": Table(("fact", "cell", *(way.name for way in findings.ways)), tuple(rows), "facts")}
