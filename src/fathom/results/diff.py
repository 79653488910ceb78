"""One model before and after training, editing or unlearning, on the same facts: what it learnt and what it forgot.

A fact is known by a share, its expected Hits@k: 1 or 0, or between where candidates tie or templates disagree. Of a
fact known by b before and by a after, max(a − b, 0) is learnt, max(b − a, 0) forgotten, min(a, b) kept and
1 − max(a, b) never known: the least change that makes one the other. The four add up to 1, learnt − forgotten is a − b,
and nothing is learnt or forgotten where nothing changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput, all_of
from fathom.metrics.significance import POWER
from fathom.results import estimates
from fathom.results.baselines import LEGENDS, ByLot, Compared, Ranked, above_chance, lacks_frequency, verdict_of
from fathom.results.baselines import baselines as baselines_of
from fathom.results.claims import (
    NO_DIFFERENCE,
    UNDETERMINED,
    Claim,
    Contrast,
    Decision,
    decide,
    difference_in_words,
    percent,
)
from fathom.results.comparison import SMALLEST, NotCompared, refusals_table
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts, names_of
from fathom.results.loading import check_depth, read_runs
from fathom.results.pairing import common_facts, difference
from fathom.results.recipes import MINUS, combined
from fathom.results.rows import Floats, Rows
from fathom.results.samples import Sample
from fathom.results.tables import Cell, Table, Tabled
from fathom.store.folder import RunFolder, differences

ALL = "all"
LEARNT, FORGOTTEN, KEPT, NEVER = "learnt", "forgotten", "kept", "never known"
RETAINED = "kept of those known before"


class OfFact(NamedTuple):
    """One fact.

    :param change: learnt, forgotten, kept or never known, whichever it is at all.
    :param before: share of its hits; *after* likewise.
    :param ranks: mean over its predictions, before and after; infinite where a search stopped.
    :param answers: names of the right ones.
    """

    fact: str
    change: str
    before: float
    after: float
    ranks: tuple[float, float]
    relation: str
    subject: str
    answers: str


class Part(NamedTuple):
    """The facts of one group, or all.

    :param facts: how many both runs ranked. :param alone: how many only the run before, and only that after, ranked.
    :param before: share of hits; *after* likewise.
    :param difference: after − before, paired by fact.
    :param became: shares that were learnt, forgotten, kept, never known, and kept of those known before, in this order.
    :param baselines: what answering without knowledge would score, and after − that.
    :param changed: the verdict on the difference; *above*: that on the baselines, None without any.
    """

    name: str
    facts: int
    alone: tuple[int, int]
    before: Estimate
    after: Estimate
    difference: Estimate
    became: Mapping[str, Estimate]
    baselines: tuple[Compared, ...]
    each: tuple[OfFact, ...]
    changed: Decision | None = None
    above: Decision | None = None

    @property
    def verdict(self) -> str | None:
        """Whether the run after is above the baselines; None without any."""
        return verdict_of(self.above)


@dataclass(frozen=True, repr=False)
class Change(Tabled):
    """All that ``fathom diff`` prints.

    :param by: key of the groups; "" where there are none.
    :param k: a fact is known up to that rank.
    :param listed: so many facts learnt, and forgotten, of each group are listed for readers; all are for programs.
    """

    parts: tuple[Part, ...]
    by: str
    k: int
    listed: int = 0
    not_compared: tuple[NotCompared, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def answer(self) -> list[str]:
        """What changed over all facts, whether groups changed, and what was learnt and forgotten."""
        whole = self.parts[0]
        assert whole.changed is not None
        words = {0: "shows no significant change", 1: "knows more than before", -1: "knows less than before"}
        if whole.changed.word == UNDETERMINED:
            return [f"Whether the model changed {UNDETERMINED}: {whole.changed.reason} ({whole.facts:,} facts)."]
        before, after = (percent(number.value) for number in (whole.before, whole.after))
        said = [
            f"The model {words[whole.changed.sign]}: {before} before, {after} after, "
            f"{difference_in_words(whole.changed)} ({whole.facts:,} facts)."
        ]
        if whole.changed.word == NO_DIFFERENCE and whole.changed.smallest is not None:
            points = f"{100 * whole.changed.smallest:.1f} points"
            said.append(f"A true change of {points} would have been found in {POWER:.0%} of cases.")
        if self.by:
            holds = [part.name for part in self.parts[1:] if part.changed is not None and part.changed.holds]
            which = f": {', '.join(holds)}" if holds else ""
            said.append(f"{len(holds)} of {len(self.parts) - 1} groups by {self.by} changed significantly{which}.")
        became = whole.became
        said.append(
            f"Learnt: {percent(became[LEARNT].value)} of the facts; forgotten: {percent(became[FORGOTTEN].value)}."
        )
        return said

    @property
    def tables(self) -> list[Table]:
        """Before and after, what became of the facts, and some of them where they are asked for."""
        return self.tables_in("text")

    def tables_in(self, form: str) -> list[Table]:
        """With all facts where it is for programs."""
        every = form in ("json", "csv")
        return [
            _before_and_after(self),
            _became_table(self),
            *([_facts_table(self, every)] if every or self.listed else []),
            *([refusals_table(("group", "why"), [one[1:] for one in self.not_compared])] if self.not_compared else []),
        ]


def diff(
    before: RunFolder,
    after: RunFolder,
    scoring: Sequence[str] = (),
    by: str = "",
    k: int = 1,
    listed: int = 0,
    cluster: str = "",
) -> Change:
    """What a model learnt and forgot.

    :param scoring: which to take of runs that have several: one.
    :param by: "relation", "direction" or any key of the queries' groups: each group for itself, too. Queries of one
        fact that are in several groups, such as an edit and its paraphrases, count in each.
    :param k: a fact is known where its right answer is among the first *k*.
    :param cluster: what queries are drawn by, for the intervals; see :mod:`fathom.results.samples`.
    :raises BadInput: unfinished runs, twice the same one, no fact in common, other candidates, a key that queries do
        not have.
    """
    if len(scoring) > 1:
        raise BadInput(f"--scoring {','.join(scoring)}: expected one")
    outcomes = read_runs([before, after], scoring, cluster, lambda outcome: outcome)
    all_of(*(partial(_check_cut, side, k) for side in outcomes))
    first, second = outcomes
    rows = Rows(after, cluster=cluster)  # with the scores of all candidates, for the names baseline
    baselines, missing = baselines_of(rows), lacks_frequency(rows)
    parts = [_part(ALL, first, second, k, baselines)]
    refused: list[NotCompared] = []
    if by:
        groups = [side.parts(by) for side in outcomes]
        for name in dict.fromkeys([*groups[0], *groups[1]]):
            try:
                sides = _of_group(groups[0], name, by), _of_group(groups[1], name, by)
                parts.append(_part(name, *sides, k, baselines))
            except BadInput as error:
                refused.append(NotCompared(first.path, name, str(error)))
    return Change(
        tuple(_decided(parts, missing)), by, k, listed, tuple(refused), tuple(_asked_otherwise(first, second))
    )


def _decided(parts: Sequence[Part], missing: str) -> list[Part]:
    """Decide on all parts as one family: whether they changed, and whether the run after is above the baselines."""
    changes = [Claim(f"{part.name} changed", (Contrast("after − before", part.difference),)) for part in parts]
    above = [above_chance(f"{part.name} is above the baselines", part.baselines, missing) for part in parts]
    decisions = iter(decide([*changes, *filter(None, above)]))
    changed = [next(decisions) for _ in parts]
    over = [next(decisions) if claim is not None else None for claim in above]
    return [part._replace(changed=one, above=two) for part, one, two in zip(parts, changed, over, strict=True)]


def _check_cut(side: RunFacts, k: int) -> None:
    """:raises BadInput: it cannot tell Hits@k."""
    check_depth(side, k)
    if np.isnan(side.hits(k)[side.scored]).any():
        raise BadInput(f"{side.path}: {side.why_untold}, which Hits@{k} needs: ask without --k")


def _of_group(groups: Mapping[str, RunFacts], name: str, by: str) -> RunFacts:
    if name not in groups:
        there = next(iter(groups.values()))
        raise BadInput(f"{there.path} has no query whose {by} is {name}")
    return groups[name]


def _asked_otherwise(first: RunFacts, second: RunFacts) -> list[str]:
    """What but the model differs in how the two were asked."""
    old, new = ({key: own for key, own in one.rows.identity.items() if key != "model"} for one in (first, second))
    found = [line.strip() for line in differences(old, new)]
    contents = {str(one.rows.identity["model"].get("content_hash")) for one in (first, second)}
    alike = ["before and after are one model: their content_hash is the same"] if len(contents) == 1 else []
    return alike + [f"asked otherwise before (there) and after (here): {'; '.join(found)}"] * bool(found)


def _part(name: str, first: RunFacts, second: RunFacts, k: int, baselines: Mapping[str, Ranked | ByLot]) -> Part:
    """:raises BadInput: no fact in common, or other candidates."""
    facts = common_facts([first, second])
    sample = second.sample(facts)
    every = [first.hits(k), second.hits(k)]
    before, after = (own[side.at(facts)] for side, own in zip((first, second), every, strict=True))
    made = combined("", [side.recipe("") for side in (first, second)], " then ")
    cut = "accuracy" if k == 1 else f"hits@{k}"
    beside = []
    for baseline, found in baselines.items():
        own = second.per_fact(found.hits(k))[second.at(facts)]
        told = ~np.isnan(own)
        if told.any():
            made_of = second.recipe(f"{cut}{MINUS}{baseline}")
            beside.append(Compared(baseline, *estimates.beyond(after[told], own[told], sample.only(told), made_of)))
    return Part(
        name,
        len(facts),
        (len(first.scored_facts) - len(facts), len(second.scored_facts) - len(facts)),
        first.mean(cut, every[0], facts, sample),
        second.mean(cut, every[1], facts, sample),
        difference(cut, [(1, second), (-1, first)], every[::-1], facts, sample),
        _became(before, after, sample, made),
        tuple(beside),
        tuple(_each(first, second, facts, before, after)),
    )


def became(before: Floats, after: Floats) -> dict[str, Floats]:
    """Of each fact how much of it is learnt, forgotten, kept and never known, [n]; these add up to 1."""
    kept = np.minimum(before, after)
    return {LEARNT: after - kept, FORGOTTEN: before - kept, KEPT: kept, NEVER: 1 - np.maximum(before, after)}


def _became(before: Floats, after: Floats, sample: Sample, made: str) -> dict[str, Estimate]:
    """:param made: recipe, without the name in front."""
    shares = became(before, after)
    told = {what: estimates.mean(values, sample, f"{what}{made}") for what, values in shares.items()}
    return told | {RETAINED: estimates.ratio(shares[KEPT], before, sample, f"{RETAINED}{made}")}


def _each(first: RunFacts, second: RunFacts, facts: Sequence[str], before: Floats, after: Floats) -> list[OfFact]:
    names = names_of(second.rows.candidates)
    ranks = [side.mean_ranks[side.at(facts)].tolist() for side in (first, second)]
    changes = np.select([after > before, after < before, before > 0], [LEARNT, FORGOTTEN, KEPT], NEVER).tolist()
    answers = [", ".join(names.get(gold, gold) for gold in golds) for golds in second.golds_of(facts)]
    of_relation, subjects = second.relations_of(facts), second.asked_about(facts)
    told = (changes, before.tolist(), after.tolist(), zip(*ranks, strict=True), of_relation, subjects, answers)
    return [OfFact(*own) for own in zip(facts, *told, strict=True)]


# --- tables


def _before_and_after(found: Change) -> Table:
    baselines = list(dict.fromkeys(one.baseline for part in found.parts for one in part.baselines))
    rows: list[dict[str, Cell | Estimate]] = []
    for part in found.parts:
        changed = part.changed
        assert changed is not None
        known = {one.baseline: one.value for one in part.baselines}
        rows.append(
            {
                **_group(found, part),
                "facts": part.facts,
                "only before": part.alone[0],
                "only after": part.alone[1],
                "before": part.before,
                "after": part.after,
                "difference": part.difference._replace(low=changed.low, high=changed.high),
                "p (Holm)": changed.p_value,
                "smallest": None if changed.holds else changed.smallest,
                "change": {1: "rose", -1: "fell"}.get(changed.sign, changed.word),
                **{name: known.get(name) for name in baselines},
                **({"verdict": part.verdict} if baselines else {}),
            }
        )
    return Table.of(
        rows,
        "accuracy" if found.k == 1 else f"hits@{found.k}",
        _notes(found),
        main="difference",
        hidden=("p", "only before", "only after"),
        formats=dict.fromkeys((*baselines, "smallest"), ".1%") | {"p (Holm)": ".2g"},
    )


def _group(found: Change, part: Part) -> dict[str, Cell | Estimate]:
    """Return the first column of a table by groups."""
    return {found.by: part.name} if found.by else {}


def _notes(found: Change) -> list[str]:
    notes = ["difference: after minus before, paired by fact", SMALLEST, *found.notes]
    if found.by:
        notes[1:1] = [f"p (Holm) and simultaneous intervals: for all {2 * len(found.parts)} verdicts of the table"]
    known = dict.fromkeys(one.baseline for part in found.parts for one in part.baselines)
    if known:
        notes.append("baselines: " + "; ".join(LEGENDS[name] for name in known))
    alone = found.parts[0].alone
    if any(alone):
        notes.append(f"left out: {alone[0]:,} facts that only the run before ranked, {alone[1]:,} only the run after")
    return notes


def _became_table(found: Change) -> Table:
    rows = [
        {**_group(found, part), "became": what, "share": share, "facts": share.n}
        for part in found.parts
        for what, share in part.became.items()
    ]
    notes = ["of a fact known by a share (ties, templates that disagree) the least change counts"]
    return Table.of(rows, "what became of the facts", notes)


def _facts_table(found: Change, every: bool) -> Table:
    """Of each group all facts, or those that changed most."""
    groups = (found.by,) if found.by else ()
    parts = found.parts[1:] if found.by else found.parts
    body: list[tuple[Cell, ...]] = [
        (*(part.name,) * len(groups), *own[:4], *own.ranks, *own[5:])
        for part in parts
        for own in (part.each if every else _most_changed(part.each, found.listed))
    ]
    columns = ("fact", "change", "before", "after", "rank before", "rank after", "relation", "subject", "right answers")
    return Table((*groups, *columns), tuple(body), "facts", hidden=frozenset({"relation"}))


def _most_changed(each: Sequence[OfFact], count: int) -> list[OfFact]:
    """Learnt, then forgotten, the greatest change first."""
    return [
        own
        for kind in (LEARNT, FORGOTTEN)
        for own in sorted((own for own in each if own.change == kind), key=lambda own: -abs(own.after - own.before))[
            :count
        ]
    ]
