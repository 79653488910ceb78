"""Does a model follow keywords, or hold the facts? (Section 5.4 of Shaier et al. 2024; Kassner and Schütze 2020.)

The same facts as they are asked, and negated, misprimed, paraphrased or cut off (``--alter``), paired by fact. As they
are is the first wording that was asked, from which the others are made: the mean of several templates differs from it
without anybody being primed. Beside what each wording costs in accuracy stands

- *same answer*: in how many facts the first answer stays the same. It should of a paraphrase, and should not of a
  negation: what is right of "Birds can [Y]." is wrong of "Birds cannot [Y].". Of what it does not know a model says
  what it always says, negated or not; so what counts is *same of known*: of the facts that it has right as they are,
  and none of the baselines has;
- *prime*: in how many of the misprimed the first answer is the candidate that was called out in front. The controls are
  how often it was the first answer *anyway*, and how often the first answer is, *by chance*, who was called out of
  another fact of the relation: one whose answers become random behind any words names a prime now and then, and any
  other wrong candidate as often. What is more than the greater of the two is *more primed*.

A model *follows keywords* where it takes the prime more often than these, or knows facts and keeps more of them when
they are negated than it changes; it *does not*, where it could have been seen to and was not, and knows facts. It
*knows* where it is above the strongest of the baselines of :mod:`fathom.results.baselines` on these facts as they are,
by the interval of the paired difference: who always says the most frequent answer says it of a negation, too, and is
told by no prime, but knows nothing. An answerer led by the words of the prompt does the first; one that holds the
facts does neither. Who loses its answers to whatever words are put otherwise neither says what a prime says nor keeps
what is negated, and follows none: that it *does not* is said only of a model that keeps most of its answers where the
meaning stays, misprimed itself, or in another wording that stands beside the negated one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fathom.data.selection.altering import PRIME
from fathom.errors import BadInput
from fathom.results.bars import BAR, BASELINE_COLUMNS, Bars, told_baseline
from fathom.results.baselines import Beside
from fathom.results.compared import refusals_table, told_apart
from fathom.results.numbers import Number
from fathom.results.outcomes import AS_IT_IS, Outcome, outcomes_of
from fathom.results.pairs import NotPaired, Paired, paired
from fathom.results.rows import Floats, grouped
from fathom.results.sides import common_facts, difference
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

NEGATED, MISPRIMED = "negated", "misprimed"
FOLLOWS, DOES_NOT = "follows keywords", "does not follow keywords"
UNTOLD, KNOWS_NOTHING = "these facts cannot tell", "knows too little to tell"
THROWN_OFF = "any other words throw it off"
MOST = 0.5
"""Of the answers."""
SLACK = 0.05
"""An interval that ends below so much is no sign of following."""
Firsts = dict[str, dict[str, float]]
"""Of each fact how often each entity is the first answer."""


class Robustness(NamedTuple):
    """One model on one data set in one reading, asked otherwise.

    :param how: the alteration. :param run: the folder of the run so altered.
    :param pair: altered − as it is, Acc@1, 5 and 10.
    :param baseline: the strongest, beside Acc@1 of the same facts as they are; None where none is known of all of them.
    :param same: share of facts whose first answer stays the same.
    :param primed: share of facts whose first answer is who was called out; None where nobody was.
    :param primed_anyway: the same of the prompts as they are.
    :param primed_by_chance: share of facts whose first answer is who was called out of another of the relation.
    :param more_primed: what is above the greater of these two, paired by fact.
    :param known: share whose first answer stays of the facts that it knows: it is right of them as they are, and no
        baseline is; None where there is none.
    :param kept: the same where the meaning stays, misprimed, paraphrased or cut off; of a negation in the one of these
        runs in which most do, None where there is none.
    """

    model: str
    data: str
    reading: str
    how: str
    run: str
    pair: Paired
    baseline: Beside | None
    same: Number
    primed: Number | None
    primed_anyway: Number | None
    primed_by_chance: Number | None
    more_primed: Number | None
    known: Number | None
    kept: Number | None

    @property
    def verdict(self) -> str | None:
        """Of the two wordings that tell; None of the others."""
        if self.how == NEGATED:
            return self._verdict(self.known, MOST)
        return None if self.more_primed is None else self._verdict(self.more_primed, 0.0)

    def _verdict(self, number: Number | None, least: float) -> str:
        knows = self.baseline.above if self.baseline else None
        low, high = (number.low, number.high) if number else (None, None)
        follows = low is not None and low > least
        if follows and self.how == MISPRIMED:
            return FOLLOWS
        if knows is False:  # who says the same of everything keeps it of a negation, too
            return KNOWS_NOTHING
        if knows is None or high is None or (not follows and high > least + SLACK):
            return UNTOLD
        return FOLLOWS if follows else self._unmoved()

    def _unmoved(self) -> str:
        """Of a model that knows facts, and was not seen to follow."""
        if self.kept is None or self.kept.low is None or self.kept.high is None:
            return UNTOLD
        if self.kept.low > MOST:
            return DOES_NOT
        return THROWN_OFF if self.kept.high < MOST else UNTOLD


class _Primed(NamedTuple):
    """As in :class:`Robustness`."""

    primed: Number | None = None
    anyway: Number | None = None
    by_chance: Number | None = None
    more: Number | None = None


class Wordings(NamedTuple):
    """:param lines: one for each altered run. :param not_paired: runs that had none to stand beside."""

    lines: list[Robustness]
    not_paired: list[NotPaired]


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> Wordings:
    """Each altered run beside the one as it is, of each model, data set and reading.

    :raises BadInput: nothing was asked both ways, no fact in common, or other candidates.
    """
    alike = grouped((_asked_as(outcome), outcome) for outcome in outcomes_of(runs, scoring, cluster))
    found = Wordings([], [])
    for (model, data, reading, _), own in alike.items():
        plain = [outcome for outcome in own if outcome.alteration == AS_IT_IS]
        altered = [outcome for outcome in own if outcome.alteration != AS_IT_IS]
        if len(plain) > 1:
            raise BadInput(f"{plain[0].path} and {plain[1].path} are both of {model} on {data} as it is: give one")
        if plain and altered:
            first = _in_first_wording(plain[0])
            bars = Bars(first)
            found.lines.extend(_controlled([_beside(other, first, bars) for other in altered]))
        else:
            lacks = "as it is" if altered else "in another wording"
            paths = ", ".join(outcome.path for outcome in own)
            found.not_paired.append(NotPaired(model, data, f"{paths}: no run {lacks} in the reading {reading}"))
    if not found.lines:
        raise BadInput(
            "no model was asked the same facts in two wordings: ask it with --alter misprimed (or negated, "
            "paraphrased, truncated) and without, and the same --reading and --pool (there is "
            f"{'; '.join(f'{one.model} on {one.data}, {one.why}' for one in found.not_paired)})"
        )
    return found


def _controlled(lines: Sequence[Robustness]) -> list[Robustness]:
    """Negations with what stays in the other wordings. :param lines: of one model."""
    of_others = (line.known for line in lines if line.how != NEGATED and line.known)
    kept = max(of_others, key=lambda known: -1.0 if known.low is None else known.low, default=None)
    return [line._replace(kept=kept) if line.how == NEGATED else line for line in lines]


def _in_first_wording(plain: Outcome) -> Outcome:
    """Of each query the prediction by the first template, or sentence, by which it was asked."""
    queries, templates = plain.rows.query[plain.places], plain.rows.template[plain.places]
    first = np.full(len(plain.rows.query_ids), np.iinfo(np.int64).max)
    np.minimum.at(first, queries, templates)
    of_first = templates == first[queries]
    if of_first.all():
        return plain
    return Outcome(plain.run, plain.rows, plain.scoring, plain.model, plain.places[of_first], "wording:first")


def _asked_as(outcome: Outcome) -> tuple[str, str, str, str]:
    """What two runs have in common that differ in their wording alone; "auto" is a reading of its own here, for an
    altered template is a sentence."""
    return outcome.model, outcome.data, outcome.rows.identity.get("options", {}).get("reading", "auto"), outcome.probe


def _beside(altered: Outcome, plain: Outcome, bars: Bars) -> Robustness:
    facts = common_facts([altered, plain])
    firsts = [_first_answers(outcome) for outcome in (plain, altered)]
    same = np.full(len(altered.facts), np.nan)
    same[altered.at(facts)] = [_alike(*(own[fact] for own in firsts)) for fact in facts]
    primes = _primes(altered, facts)
    told = _primed(altered, plain, primes, firsts) if primes else _Primed()
    own = bars.known(facts)
    known = altered.mean("same answer of the known", same, own) if own else None
    return Robustness(
        plain.model,
        plain.data,
        plain.reading,
        altered.alteration,
        altered.path,
        paired(altered, plain, facts),
        bars.strongest(1, facts),
        altered.mean("same answer", same, facts),
        *told,
        known,
        known,
    )


def _first_answers(outcome: Outcome) -> Firsts:
    """Of each fact how often each entity is the first answer; those that tie share the place."""
    prompts = grouped(zip(outcome.fact_of.tolist(), outcome.places.tolist(), strict=True))
    found: Firsts = {}
    for fact, places in prompts.items():
        own: dict[str, float] = {}
        for place in places:
            best = _first(outcome, place)
            for id_ in best:
                own[id_] = own.get(id_, 0.0) + 1 / (len(best) * len(places))
        found[outcome.facts[fact]] = own
    return found


def _first(outcome: Outcome, place: int) -> list[str]:
    """The best answer of a prediction, and those of the list of the best that tie with it."""
    table = outcome.rows.table
    scores: list[float] = table.column("top_scores")[place].as_py() or []
    return [id_ for id_, score in zip(outcome.rows.best(place), scores, strict=False) if score == scores[0]]


def _alike(one: dict[str, float], other: dict[str, float]) -> float:
    """Chance that a first answer of the one is the other's."""
    return sum(share * other.get(id_, 0.0) for id_, share in one.items())


def _primes(altered: Outcome, facts: Sequence[str]) -> dict[str, str]:
    """Who was called out, by fact."""
    wanted = set(facts)
    of_query = zip(altered.facts, altered.queries, strict=True)
    said = ((fact, altered.rows.said_of(query, PRIME)) for fact, query in of_query if fact in wanted)
    return {fact: prime for fact, prime in said if prime}


def _primed(altered: Outcome, plain: Outcome, primes: dict[str, str], firsts: Sequence[Firsts]) -> _Primed:
    """:param firsts: of the plain, and of the altered."""
    name, called = "answers the prime", list(primes)
    before, after = (
        _share_of_primes(outcome, primes, own) for outcome, own in zip((plain, altered), firsts, strict=True)
    )
    chance = _share_of_others_primes(altered, primes, firsts[1])
    primed, anyway, by_chance = (
        outcome.mean(name, values, called) for outcome, values in ((altered, after), (plain, before), (altered, chance))
    )
    control, values = (altered, chance) if by_chance.value > anyway.value else (plain, before)
    more = difference(name, [(1, altered), (-1, control)], [after, values], called)
    return _Primed(primed, anyway, by_chance, more)


def _share_of_primes(outcome: Outcome, primes: dict[str, str], firsts: Firsts) -> Floats:
    found = np.full(len(outcome.facts), np.nan)
    for fact, prime in primes.items():
        found[outcome.place[fact]] = firsts[fact].get(prime, 0.0)
    return found


def _share_of_others_primes(outcome: Outcome, primes: dict[str, str], firsts: Firsts) -> Floats:
    """Of each fact the chance that its first answer is a prime drawn from those of the relation's other facts that are
    wrong of it, too; 0 where there is none."""
    found = np.full(len(outcome.facts), np.nan)
    facts = list(primes)
    relations, golds = outcome.relations_of(facts), outcome.golds_of(facts)
    called = {relation: Counter(own) for relation, own in grouped(zip(relations, primes.values(), strict=True)).items()}
    for fact, relation, gold in zip(facts, relations, golds, strict=True):
        own, prime = called[relation], primes[fact]
        wrong = own.total() - 1 - sum(own[id_] for id_ in gold)
        taken = sum(share * (own[id_] - (id_ == prime)) for id_, share in firsts[fact].items() if id_ not in gold)
        found[outcome.place[fact]] = taken / wrong if wrong else 0.0
    return found


def tables(found: Wordings) -> list[Table]:
    """What each wording costs, what stays, and what is taken over; then what could not be paired."""
    lines = found.lines
    bare = [f"{line.model} {line.data} {line.reading} {line.how}" for line in lines]
    told = told_apart([(name, line.run) for name, line in zip(bare, lines, strict=True)])
    apart = [name[len(plain) :] for name, plain in zip(told, bare, strict=True)]
    rows = [
        (
            *(line.model, line.data, line.reading),
            *(f"{line.how}{which}", line.pair.facts),
            *(line.pair.second[0], *told_baseline(line.baseline)),
            *(line.pair.first[0], line.pair.differences[0], line.same, line.known),
            *(line.primed_anyway, line.primed_by_chance, line.primed, line.more_primed, line.verdict),
        )
        for line, which in zip(lines, apart, strict=True)
    ]
    shares = ("Acc@1", "Acc@1 altered", "same answer", "same of known", "prime anyway", "prime by chance", "prime")
    ends = {name: (f"{name} low", f"{name} high") for name in shares}
    notes = [
        "altered minus as it is, paired by fact; same answer: facts whose first answer stays; same of known: of those "
        "that it has right as they are and no baseline has",
        "prime: facts whose first answer is who was called out in front; anyway: the same without that; by chance: who "
        "was called out of another fact of the relation; more primed: than the greater of the two",
        f"{FOLLOWS}: takes the prime more often than these, or knows facts and keeps more of them when negated "
        "than it changes; knows: the 95 % interval of what it is over the baseline, paired by fact, is above 0",
        f"{DOES_NOT}: knows facts, was not seen to, and keeps more of them than it changes where the meaning stays "
        f"(misprimed; of a negation, in any other run beside it); {THROWN_OFF}: changes more of them there, too",
        BAR,
    ]
    for line in lines:
        for count, said in ((line.pair.only_first, "altered"), (line.pair.only_second, "as they are")):
            if count:
                notes.append(f"{line.model}, {line.data}, {line.how}: {count:,} facts ranked only {said} are left out")
    return [
        Table.of_numbers(
            (
                *("model", "data", "reading", "altered", "facts", "Acc@1", *BASELINE_COLUMNS),
                *("Acc@1 altered", "change", "same answer", "same of known"),
                *("prime anyway", "prime by chance", "prime", "more primed", "verdict"),
            ),
            rows,
            "the same facts in other wordings",
            {
                **ends,
                "over baseline": ("over low", "over high"),
                "change": ("low", "high", "p"),
                "more primed": ("primed low", "primed high"),
            },
            dict.fromkeys((*shares, "Acc@1 baseline"), ".1%")
            | dict.fromkeys(("over baseline", "change", "more primed"), "+.1%"),
            notes,
            [end for own in ends.values() for end in own],
        ),
        *([refusals_table(NotPaired._fields, found.not_paired)] if found.not_paired else []),
    ]
