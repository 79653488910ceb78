"""One model before and after training, editing or unlearning: which facts it learnt and which it forgot.

A fact is known by a share, its expected Hits@k: 1 or 0, or between where candidates tie or templates disagree. Of a
fact known by b before and by a after, max(a − b, 0) is learnt, max(b − a, 0) forgotten, min(a, b) kept and
1 − max(a, b) never known. The four add up to 1, and learnt − forgotten is a − b.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput, all_of
from fathom.base.options import separated
from fathom.results import estimates
from fathom.results.baselines import LEGENDS, BaselineComparison, RunBaselines, above_chance, verdict_text
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
from fathom.results.comparison import IncomparablePair, refusals_table
from fathom.results.estimates import Estimate, combined
from fathom.results.facts import WRITTEN, RunFacts, common_facts, difference, names_of
from fathom.results.loading import AnyRun, check_depth, open_runs, read_runs
from fathom.results.metrics.significance import POWER
from fathom.results.rows import Floats, Rows, alike_reasons
from fathom.results.samples import Sample
from fathom.results.tables import Cell, Table, Tabular
from fathom.store.folder import differences

ALL = "all"
LEARNT, FORGOTTEN, KEPT, NEVER = "learnt", "forgotten", "kept", "never known"
RETAINED = "kept of those known before"
CHANGES = {1: "rose", -1: "fell", NO_DIFFERENCE: NO_DIFFERENCE, UNDETERMINED: UNDETERMINED}
SHOWN = ("facts", "before", "after", "difference", "p (Holm)", "change")
SHORT = {NO_DIFFERENCE: "no", UNDETERMINED: "unknown"}
FORMATS = dict.fromkeys(LEGENDS, ".1%") | {"smallest": "+.1%", "p (Holm)": ".2g"}


class OfFact(NamedTuple):
    """One fact.

    :param change: learnt, forgotten, kept or never known.
    :param rank_before: mean over its predictions; infinite where a search stopped; *rank_after* likewise.
    """

    fact: str
    change: str
    before: float
    after: float
    rank_before: float
    rank_after: float
    relation: str
    subject: str
    answers: str


class GroupChange(NamedTuple):
    """The facts of one group, or all.

    :param facts: number of facts ranked by both runs.
    :param alone: number of facts ranked by the run before alone, and by that after alone.
    :param became: shares learnt, forgotten, kept, never known, and kept of those known before, in this order.
    :param baselines: what answering without knowledge would score, and after − that.
    :param above: the verdict on the baselines; None without any.
    """

    name: str
    facts: int
    alone: tuple[int, int]
    before: Estimate
    after: Estimate
    difference: Estimate
    became: Mapping[str, Estimate]
    baselines: tuple[BaselineComparison, ...]
    each: tuple[OfFact, ...]
    changed: Decision | None = None
    above: Decision | None = None

    @property
    def verdict(self) -> str | None:
        """The verdict on the run after against the baselines; None without any."""
        return verdict_text(self.above)


@dataclass(frozen=True, repr=False)
class Change(Tabular):
    """All that ``fathom diff`` prints.

    :param by: key of the groups; "" without groups.
    :param k: a fact is known up to that rank.
    :param listed: number of facts learnt, and forgotten, to list of each group for readers; programs see all.
    :param one_model: the runs differ in settings alone, so nothing was learnt or forgotten between them.
    :param labels: of relations whose ids are addresses.
    """

    parts: tuple[GroupChange, ...]
    by: str
    k: int
    listed: int = 0
    not_compared: tuple[IncomparablePair, ...] = ()
    notes: tuple[str, ...] = ()
    edits: tuple[EditMeasure, ...] = ()
    one_model: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> list[str]:
        """Sentences on the change over all facts and over groups, and on what was learnt and forgotten."""
        whole, changed = self.parts[0], self.parts[0].changed
        assert changed is not None
        if changed.word == UNDETERMINED:
            return [f"Whether the model changed {UNDETERMINED}: {changed.reason} ({whole.facts:,} facts)."]
        knows = "scores {} after than before" if self.one_model else "knows {} than before"
        how = ("higher", "lower") if self.one_model else ("more", "less")
        verb = {0: "shows no significant change", 1: knows.format(how[0]), -1: knows.format(how[1])}
        before, after = (percent(number.value) for number in (whole.before, whole.after))
        facts = f"{difference_in_words(changed)} ({whole.facts:,} facts)"
        sentences = [f"The model {verb[changed.sign]}: {before} before, {after} after, {facts}."]
        if changed.word == NO_DIFFERENCE and changed.smallest is not None:
            found = f"{100 * changed.smallest:.1f} points would have been found in {100 * POWER:.0f} % of cases"
            sentences.append(f"A true change of {found}; smaller ones remain possible.")
        if self.by:
            holds = [
                self.labels.get(part.name, part.name)
                for part in self.parts[1:]
                if part.changed is not None and part.changed.holds
            ]
            which = f": {', '.join(holds)}" if holds else ""
            sentences.append(f"{len(holds)} of {len(self.parts) - 1} groups by {self.by} changed significantly{which}.")
        learnt, forgotten = (percent(whole.became[what].value) for what in (LEARNT, FORGOTTEN))
        became = ("Right only after", "only before") if self.one_model else ("Learnt", "forgotten")
        sentences.append(f"{became[0]}: {learnt} of the facts; {became[1]}: {forgotten}.")
        edits = [f"{measure.name} {percent(measure.after.value)}" for measure in self.edits if measure.edits]
        return [*sentences, *([f"Edits: {', '.join(edits)}."] if edits else [])]

    def tables_in(self, form: str) -> list[Table]:
        """Return before and after, what became of the facts, and some of them if requested; all for programs."""
        every = form in ("json", "csv")
        tables = [_change_table(self, every), _became_table(self)]
        if not every and self.parts[0].baselines:
            tables.insert(1, _baselines_table(self))
        tables += [edits_table(self.edits)] if self.edits else []
        tables += [_facts_table(self, every)] if every or self.listed else []
        refused = [refusal[1:] for refusal in self.not_compared]
        tables += [refusals_table(("group", "why"), refused)] if refused else []
        return [replace(table, labels=self.labels) for table in tables]


def diff(
    before: AnyRun,
    after: AnyRun,
    scoring: Sequence[str] = (),
    by: str = "",
    k: int = 1,
    listed: int = 0,
    cluster: str = "",
) -> Change:
    """Compare what a model knows before and after.

    :param scoring: which one to take of runs that have several.
    :param by: "relation", "direction" or any key of the queries' groups, for each group separately. Queries of one fact
        that are in several groups, such as an edit and its paraphrases, count in each.
    :param k: a fact is known if its right answer is among the first *k*.
    :param cluster: sampling unit of the intervals; see :mod:`fathom.results.samples`.
    :raises BadInput: unfinished runs, the same one twice, no fact in common, other candidates, an unknown key.

    >>> fathom.diff("reference:SmolLM2-135M-Instruct", "reference:Gemma-3-270m").tables[0].title
    'accuracy'
    """
    scoring = separated(scoring)
    if len(scoring) > 1:
        raise BadInput(f"--scoring {','.join(scoring)}: expected one")
    first, second = sides = read_runs(open_runs([before, after]), scoring, cluster, lambda outcome: outcome)
    all_of(*(partial(_check_cut, side, k) for side in sides))
    baselines = RunBaselines(second)
    parts = [_part(ALL, first, second, k, baselines)]
    refused: list[IncomparablePair] = []
    groups = [side.parts(by) for side in sides] if by else [{}, {}]
    for name in dict.fromkeys([*groups[0], *groups[1]]):
        try:
            for side, group in zip(sides, groups, strict=True):
                if name not in group:
                    raise BadInput(f"{side.path} has no query whose {by} is {name}")
            parts.append(_part(name, groups[0][name], groups[1][name], k, baselines))
        except BadInput as error:
            refused.append(IncomparablePair(first.path, name, str(error)))
    decided = tuple(_decided(parts, baselines.missing))
    edits, one_model = tuple(edit_measures(first, second)), first.content_hash == second.content_hash
    notes = _different_settings(first, second, one_model)
    labels = second.rows.declared.relations
    return Change(decided, by, k, listed, tuple(refused), tuple(notes), edits, one_model, labels)


def _decided(parts: Sequence[GroupChange], missing: str) -> list[GroupChange]:
    """Decide on all parts as one family: whether they changed, and whether the run after is above the baselines."""
    claims: dict[tuple[str, int], Claim | None] = {}
    for number, part in enumerate(parts):
        claims["changed", number] = Claim(f"{part.name} changed", (Contrast("after − before", part.difference),))
        claims["above", number] = above_chance(f"{part.name} is above the baselines", part.baselines, missing)
    decisions = decide(claims)
    return [
        part._replace(changed=decisions["changed", number], above=decisions.get(("above", number)))
        for number, part in enumerate(parts)
    ]


def _check_cut(side: RunFacts, k: int) -> None:
    """:raises BadInput: Hits@k is unknown."""
    check_depth(side, k)
    if np.isnan(side.hits(k)[side.scored]).any():
        raise BadInput(f"{side.path}: {side.why_undefined}, which Hits@{k} needs: compare without --k")


def _different_settings(first: RunFacts, second: RunFacts, one_model: bool) -> list[str]:
    """Return notes on what but the model differs between the runs."""
    old, new = ({key: value for key, value in side.rows.identity.items() if key != "model"} for side in (first, second))
    lines = [line.strip() for line in differences(old, new)]
    alike = "before and after are one model, with the same content_hash: read learnt as right only after"
    settings = f"settings differ between before (there) and after (here): {'; '.join(lines)}"
    return [alike] * one_model + [settings] * bool(lines)


def _part(name: str, first: RunFacts, second: RunFacts, k: int, baselines: RunBaselines) -> GroupChange:
    """:raises BadInput: no fact in common, or other candidates."""
    facts = common_facts([first, second])
    sample = second.sample(facts)
    hits = [first.hits(k), second.hits(k)]
    before, after = (side_hits[side.at(facts)] for side, side_hits in zip((first, second), hits, strict=True))
    cut = "accuracy" if k == 1 else f"hits@{k}"
    shares, line = became(before, after), combined("", [side.recipe("") for side in (first, second)], " then ")
    numbers = {what: estimates.mean(values, sample, f"{what}{line}") for what, values in shares.items()}
    return GroupChange(
        name,
        len(facts),
        (len(first.scored_facts) - len(facts), len(second.scored_facts) - len(facts)),
        first.mean(cut, hits[0], facts, sample),
        second.mean(cut, hits[1], facts, sample),
        difference(cut, second, first, hits[::-1], facts, sample),
        numbers | {RETAINED: estimates.ratio(shares[KEPT], before, sample, f"{RETAINED}{line}")},
        tuple(baselines.compare(k, facts, second, sample)),
        tuple(_each(first, second, facts, before, after)),
    )


def became(before: Floats, after: Floats) -> dict[str, Floats]:
    """Return how much of each fact is learnt, forgotten, kept and never known, shape (n); these add up to 1."""
    kept = np.minimum(before, after)
    return {LEARNT: after - kept, FORGOTTEN: before - kept, KEPT: kept, NEVER: 1 - np.maximum(before, after)}


def _each(first: RunFacts, second: RunFacts, facts: Sequence[str], before: Floats, after: Floats) -> list[OfFact]:
    names = names_of(second.rows.candidates)
    ranks = [side.mean_ranks[side.at(facts)].tolist() for side in (first, second)]
    changes = np.select([after > before, after < before, before > 0], [LEARNT, FORGOTTEN, KEPT], NEVER).tolist()
    answers = [", ".join(names.get(gold, gold) for gold in golds) for golds in second.gold_ids_of(facts)]
    about = second.relations_of(facts), second.subject_names(facts), answers
    columns = (facts, changes, before.tolist(), after.tolist(), *ranks, *about)
    return list(map(OfFact, *columns))


# --- tables


def _change_table(change: Change, every: bool) -> Table:
    """Return a row per group; with the baselines in formats for programs."""
    rows: list[dict[str, Cell | Estimate]] = []
    for part in change.parts:
        changed = part.changed
        assert changed is not None
        row: dict[str, Cell | Estimate] = {
            **_group(change, part),
            "facts": part.facts,
            "only before": part.alone[0],
            "only after": part.alone[1],
            "before": part.before,
            "after": part.after,
            "difference": part.difference._replace(low=changed.low, high=changed.high),
            "p (Holm)": changed.p_value,
            "smallest": None if changed.holds else changed.smallest,
            "change": CHANGES[changed.sign or changed.word],
            **_baseline_cells(part),
        }
        if not every:
            row = {name: row[name] for name in (*_group(change, part), *SHOWN)}
            row["change"] = SHORT.get(changed.word, row["change"])
        rows.append(row)
    legend = [f"change: no: {NO_DIFFERENCE}; unknown: {UNDETERMINED}"] * (not every)
    family = f"p (Holm) and simultaneous intervals: for all {2 * len(change.parts)} verdicts of this call"
    notes = ["difference: after minus before, paired by fact", *legend, *([family] if change.by else []), *change.notes]
    if any(alone := change.parts[0].alone):
        notes.append(f"excluded: {alone[0]:,} facts that only the run before ranked, {alone[1]:,} only the run after")
    title = "accuracy" if change.k == 1 else f"hits@{change.k}"
    return Table.of(rows, title, notes, main="difference", hidden=("p",), formats=FORMATS)


def _baselines_table(change: Change) -> Table:
    rows = [{**_group(change, part), "after": part.after, **_baseline_cells(part)} for part in change.parts]
    for row, part in zip(rows, change.parts, strict=True):
        if part.above is not None and part.above.word == UNDETERMINED:
            row["verdict"] = SHORT[UNDETERMINED]
    notes = [LEGENDS[name] for name in dict.fromkeys(line.baseline for part in change.parts for line in part.baselines)]
    if any(row.get("verdict") == SHORT[UNDETERMINED] for row in rows):
        notes.append(f"{SHORT[UNDETERMINED]}: {UNDETERMINED}")
    return Table.of(rows, "after, next to the baselines", notes, formats=FORMATS)


def _baseline_cells(part: GroupChange) -> dict[str, Cell | Estimate]:
    """Return the baselines of a group and the verdict on them; nothing without any."""
    values: dict[str, Cell | Estimate] = {comparison.baseline: comparison.value for comparison in part.baselines}
    return values | ({"verdict": part.verdict} if values else {})


def _group(change: Change, part: GroupChange) -> dict[str, Cell | Estimate]:
    """Return the first column of a table by groups."""
    return {change.by: part.name} if change.by else {}


def _became_table(change: Change) -> Table:
    rows = [
        {**_group(change, part), "became": what, "share": share, "facts": share.n}
        for part in change.parts
        for what, share in part.became.items()
    ]
    notes = ["a fact right in part (ties, templates that disagree) counts in part: min(before, after) is kept"]
    return Table.of(rows, "what became of the facts", notes)


def _facts_table(change: Change, every: bool) -> Table:
    """List all facts of each group, or those that changed most."""
    groups = (change.by,) if change.by else ()
    body: list[tuple[Cell, ...]] = [
        (*(part.name,) * len(groups), *fact)
        for part in (change.parts[1:] if change.by else change.parts)
        for fact in (part.each if every else _most_changed(part.each, change.listed))
    ]
    columns = ("fact", "change", "before", "after", "rank before", "rank after", "relation", "subject", "right answers")
    return Table((*groups, *columns), tuple(body), "facts", hidden=frozenset({"fact", "before", "after"}))


def _most_changed(facts: Sequence[OfFact], count: int) -> list[OfFact]:
    """Return the facts learnt, then those forgotten, the greatest change first."""
    in_order = sorted(facts, key=lambda fact: -abs(fact.after - fact.before))
    return [
        changed
        for kind in (LEARNT, FORGOTTEN)
        for changed in [fact for fact in in_order if fact.change == kind][:count]
    ]


# --- model edits, as in Meng et al. (ROME 2022, MEMIT 2023)


PROMPT, EDIT = "prompt", "edit"
EFFICACY, PARAPHRASED, SPECIFICITY = "efficacy", "paraphrase success", "specificity"
KINDS = {EFFICACY: "target", PARAPHRASED: "paraphrase", SPECIFICITY: "neighbourhood"}
"""Measure → the kind of prompt that it is of."""


class EditMeasure(NamedTuple):
    """One measure of the edits that both runs scored; the value of an edit is the mean over its prompts.

    :param edits: number of edits; *prompts* of their queries of this kind.
    :param unscored: number of facts by the reason why they are excluded.
    """

    name: str
    edits: int
    prompts: int
    before: Estimate
    after: Estimate
    difference: Estimate
    unscored: Mapping[str, int]
    written: bool


def edit_measures(before: RunFacts, after: RunFacts) -> list[EditMeasure]:
    """Return the measures whose prompts both runs have; none if queries name no edits.

    An edit gives a fact a new answer. Queries name their edit in the group ``edit``, and in ``prompt`` whether they
    have the edited prompt, a paraphrase, or a prompt on a neighbouring subject. Their candidates are the true answer,
    which is gold, and the new one: ranks say which scores higher, a tie counts half. A written answer counts as such.
    """
    if any(key not in side.rows.keys for side in (before, after) for key in (PROMPT, EDIT)):
        return []
    first, second = before.parts(PROMPT), after.parts(PROMPT)
    return [
        _measure(name, first[kind], second[kind]) for name, kind in KINDS.items() if kind in first and kind in second
    ]


def _measure(name: str, before: RunFacts, after: RunFacts) -> EditMeasure:
    unscored = _unscored(before, after)
    facts = [fact for fact in after.facts if fact not in unscored]
    old, new = (_successes(side, name)[side.at(facts)] for side in (before, after))
    places = after.at(facts)
    labels = [after.rows.text_of(after.queries[place], EDIT) for place in places.tolist()]
    sizes = Counter(labels)
    weights = np.array([1 / sizes[label] for label in labels])
    sample = after.sample(facts) if after.cluster else Sample(EDIT, [str(label) for label in labels]).numbered()
    recipes = [f"{side.recipe(name)}|weights:1 / facts of the edit" for side in (before, after)]
    return EditMeasure(
        name,
        len(sizes),
        len(np.unique(after.rows.query[after.places[np.isin(after.fact_of, places)]])),
        estimates.mean(old, sample, recipes[0], weights=weights),
        estimates.mean(new, sample, recipes[1], weights=weights),
        estimates.difference(new, old, sample, combined(name, recipes[::-1]), weights=weights),
        Counter(unscored.values()),
        after.why_undefined == WRITTEN,
    )


def _unscored(before: RunFacts, after: RunFacts) -> dict[str, str]:
    """Return the facts to exclude, each with its reason."""
    reasons = dict.fromkeys({*before.facts} ^ {*after.facts}, "only one of the runs has them")
    for side in (after, before):
        for fact, query in zip(side.facts, side.queries, strict=True):
            if new_answer(side.rows, query) is None:
                reasons.setdefault(fact, "their candidates are not the true and one new answer")
            elif side.rows.text_of(query, EDIT) is None:
                reasons.setdefault(fact, "they name no edit")
        reasons = side.left_out | reasons
    return reasons


def new_answer(rows: Rows, query: int) -> str | None:
    """Return the only candidate that is no right answer; None if there are none or several."""
    right = rows.right_ids(query)
    ids: Sequence[str] = rows.candidates.get(rows.spaces[query] or "", ((), ()))[0]
    others = [id_ for id_ in ids if id_ not in right] if len(ids) <= len(right) + 1 else []
    return others[0] if len(others) == 1 else None


def _successes(side: RunFacts, name: str) -> Floats:
    """Return the share of each fact's prompts at which the edit succeeds, shape (facts); NaN where unscored."""
    rows, true_wanted = side.rows, name == SPECIFICITY
    if side.why_undefined != WRITTEN:
        hits = rows.hits(1)
        return side.per_fact(hits if true_wanted else 1 - hits)
    values = np.full(len(rows.query), np.nan)
    answers = rows.table.column("answer_ids").take(side.places).to_pylist()
    for place, query, written in zip(side.places.tolist(), rows.query[side.places].tolist(), answers, strict=True):
        wanted = rows.gold[query] if true_wanted else [new_answer(rows, query)]
        values[place] = float(any(id_ in wanted for id_ in written or () if id_ is not None))
    return side.per_fact(values)


def edits_table(measures: Sequence[EditMeasure]) -> Table:
    columns = EditMeasure._fields[1:6]
    rows = [{"measure": line.name, **{column: getattr(line, column) for column in columns}} for line in measures]
    does = "is written" if any(line.written for line in measures) else "scores higher; a tie counts half"
    notes = [
        "efficacy and paraphrase success: share of edits whose new answer, specificity: whose neighbours' true answer "
        f"{does}; the mean over an edit's prompts, then over edits"
    ]
    notes += [
        f"{line.name}: {count:,} facts excluded: {reason}"
        for line in measures
        for reason, count in alike_reasons(line.unscored)
    ]
    return Table.of(rows, "edits", notes, main="after", hidden=("difference p",))
