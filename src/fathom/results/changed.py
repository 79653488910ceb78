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
from fathom.metrics.significance import LEVEL
from fathom.results import numbers
from fathom.results.baselines import Beside, ByLot, Ranked, verdict_of, without_scores
from fathom.results.compared import SMALLEST, NotCompared, holm_of, outcomes_to_compare, refusals_table
from fathom.results.numbers import MINUS, Number, combined
from fathom.results.outcomes import Outcome, check_depth, names_of
from fathom.results.rows import Floats
from fathom.results.samples import Sample
from fathom.results.sides import common_facts, difference
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
    :param beside: what answering without knowledge would score, and after − that.
    :param adjusted: p value of the difference, by Holm among all groups; None of all facts beside groups.
    """

    name: str
    facts: int
    alone: tuple[int, int]
    before: Number
    after: Number
    difference: Number
    became: Mapping[str, Number]
    beside: tuple[Beside, ...]
    each: tuple[OfFact, ...]
    adjusted: float | None = None

    @property
    def p_value(self) -> float | None:
        """The adjusted one where there is one."""
        return self.difference.p_value if self.adjusted is None else self.adjusted

    @property
    def shown(self) -> bool:
        """Whether a difference is significant."""
        return self.p_value is not None and self.p_value < LEVEL

    @property
    def verdict(self) -> str | None:
        """Whether the run after is above answering without knowledge; None where nobody knows."""
        return verdict_of(self.beside)


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
    outcomes = outcomes_to_compare([before, after], scoring, cluster, lambda outcome: outcome)
    all_of(*(partial(_check_cut, side, k) for side in outcomes))
    first, second = outcomes
    baselines = without_scores(second.rows)
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
        adjusted = holm_of([part.difference.p_value for part in parts[1:]])
        parts[1:] = [part._replace(adjusted=p) for part, p in zip(parts[1:], adjusted, strict=True)]
    return Change(tuple(parts), by, k, listed, tuple(refused), tuple(_asked_otherwise(first, second)))


def _check_cut(side: Outcome, k: int) -> None:
    """:raises BadInput: it cannot tell Hits@k."""
    check_depth(side, k)
    if np.isnan(side.hits(k)[side.scored]).any():
        raise BadInput(f"{side.path}: {side.why_untold}, which Hits@{k} needs: ask without --k")


def _of_group(groups: Mapping[str, Outcome], name: str, by: str) -> Outcome:
    if name not in groups:
        there = next(iter(groups.values()))
        raise BadInput(f"{there.path} has no query whose {by} is {name}")
    return groups[name]


def _asked_otherwise(first: Outcome, second: Outcome) -> list[str]:
    """What but the model differs in how the two were asked."""
    old, new = ({key: own for key, own in one.rows.identity.items() if key != "model"} for one in (first, second))
    found = [line.strip() for line in differences(old, new)]
    contents = {str(one.rows.identity["model"].get("content_hash")) for one in (first, second)}
    alike = ["before and after are one model: their content_hash is the same"] if len(contents) == 1 else []
    return alike + [f"asked otherwise before (there) and after (here): {'; '.join(found)}"] * bool(found)


def _part(name: str, first: Outcome, second: Outcome, k: int, baselines: Mapping[str, Ranked | ByLot]) -> Part:
    """:raises BadInput: no fact in common, or other candidates."""
    facts = common_facts([first, second])
    sample = second.two_way_sample(facts).numbered()
    every = [first.hits(k), second.hits(k)]
    before, after = (own[side.at(facts)] for side, own in zip((first, second), every, strict=True))
    made = combined("", [side.recipe("") for side in (first, second)], " then ")
    cut = "accuracy" if k == 1 else f"hits@{k}"
    beside = []
    for baseline, found in baselines.items():
        own = second.per_fact(found.hits(k))[second.at(facts)]
        if not np.isnan(own).any():
            made_of = second.recipe(f"{cut}{MINUS}{baseline}")
            beside.append(Beside(baseline, *numbers.beyond(after, own, sample, made_of)))
    return Part(
        name,
        len(facts),
        (len(first.told()) - len(facts), len(second.told()) - len(facts)),
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


def _became(before: Floats, after: Floats, sample: Sample, made: str) -> dict[str, Number]:
    """:param made: recipe, without the name in front."""
    shares = became(before, after)
    told = {what: numbers.mean(values, sample, f"{what}{made}") for what, values in shares.items()}
    return told | {RETAINED: numbers.ratio(shares[KEPT], before, sample, f"{RETAINED}{made}")}


def _each(first: Outcome, second: Outcome, facts: Sequence[str], before: Floats, after: Floats) -> list[OfFact]:
    names = names_of(second.rows.candidates)
    ranks = [side.mean_ranks[side.at(facts)].tolist() for side in (first, second)]
    changes = np.select([after > before, after < before, before > 0], [LEARNT, FORGOTTEN, KEPT], NEVER).tolist()
    answers = [", ".join(names.get(gold, gold) for gold in golds) for golds in second.golds_of(facts)]
    of_relation, subjects = second.relations_of(facts), second.asked_about(facts)
    told = (changes, before.tolist(), after.tolist(), zip(*ranks, strict=True), of_relation, subjects, answers)
    return [OfFact(*own) for own in zip(facts, *told, strict=True)]


# --- tables


def _before_and_after(found: Change) -> Table:
    groups = [found.by] if found.by else []
    baselines = list(dict.fromkeys(one.baseline for part in found.parts for one in part.beside))
    body: list[tuple[Cell | Number, ...]] = []
    for part in found.parts:
        about = (part.name,) * len(groups)
        smallest = None if part.shown else part.difference.smallest
        change = ("rose" if part.difference.value > 0 else "fell") if part.shown else None
        beside = {one.baseline: one.value for one in part.beside}
        tested = (part.difference, *(part.adjusted,) * len(groups), smallest, change)
        body.append(
            (*about, part.facts, *part.alone, part.before, part.after, *tested, *map(beside.get, baselines))
            + (part.verdict,) * bool(baselines)
        )
    shares = ("before", "after", *baselines, "smallest")
    sides = {side: (f"{side} low", f"{side} high") for side in ("before", "after")}
    holm = ("p (Holm)",) * len(groups)
    verdict, alone = ("verdict",) * bool(baselines), ("only before", "only after")
    return Table.of_numbers(
        (*groups, "facts", *alone, "before", "after", "difference", *holm, "smallest", "change", *baselines, *verdict),
        body,
        "accuracy" if found.k == 1 else f"hits@{found.k}",
        {**sides, "difference": ("low", "high", "p")},
        {**dict.fromkeys(shares, ".1%"), "difference": "+.1%", "p (Holm)": ".2g"},
        _notes(found),
        (*alone, *(end for ends in sides.values() for end in ends)),
    )


def _notes(found: Change) -> list[str]:
    notes = ["difference: after minus before, paired by fact", SMALLEST, *found.notes]
    if found.by:
        notes[1:1] = [f"p (Holm): adjusted for the {len(found.parts) - 1} groups"]
    if any(part.beside for part in found.parts):
        notes.append(
            "random, majority: what answering by lot, and with what is right most often in the other facts, would "
            "score on these facts; verdict: whether the 95 % interval of after minus that lies above 0"
        )
    alone = found.parts[0].alone
    if any(alone):
        notes.append(f"left out: {alone[0]:,} facts that only the run before ranked, {alone[1]:,} only the run after")
    return notes


def _became_table(found: Change) -> Table:
    groups = (found.by,) if found.by else ()
    return Table.of_numbers(
        (*groups, "became", "share", "facts"),
        [
            (*(part.name,) * len(groups), what, share, share.n)
            for part in found.parts
            for what, share in part.became.items()
        ],
        "what became of the facts",
        {"share": ("low", "high")},
        {"share": ".1%"},
        ["of a fact known by a share (ties, templates that disagree) the least change counts"],
    )


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
