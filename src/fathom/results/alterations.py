"""Does a model follow keywords, or know the facts? (Section 5.4 of Shaier et al. 2024; Kassner and Schütze 2020.)

Runs with negated, misprimed, paraphrased or truncated sentences (``--alter``) are paired by fact with the unmodified
run of the same model. Measured in addition to the change in accuracy:

- *same answer*: how often the first answer stays. It should for a paraphrase, and should not for a negation.
- *same of known*: the same over facts that the model has right and no baseline has, since a model that knows nothing
  gives its usual answer, negated or not.
- *prime*: how often the first answer to a misprimed sentence is the candidate put in front. Its controls are how often
  that was the answer *anyway*, and how often the answer is, *by chance*, the prime of another fact of the relation.

A model *follows keywords* if it takes the prime more often than both controls, or keeps more of the known answers under
negation than it changes. It *does not* if it knows facts, takes the prime hardly more often (or changes known answers
under negation), and keeps known answers where the meaning stays. A model that any rewording changes does neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fathom.base.errors import BadInput
from fathom.data.selection.altering import PRIME
from fathom.results import estimates
from fathom.results.baselines import RunBaselines
from fathom.results.claims import Claim, Contrast
from fathom.results.estimates import Estimate
from fathom.results.facts import ACCURACY, UNALTERED, RunFacts, common_facts, difference
from fathom.results.loading import read_all_facts
from fathom.results.rows import Floats, grouped
from fathom.results.tables import Table
from fathom.store.folder import RunFolder

NEGATED, MISPRIMED = "negated", "misprimed"
FOLLOWS, DOES_NOT = "follows keywords", "does not follow keywords"
OF_PRIMES = ("prime", "anyway", "by chance")
MOST = 0.5
SLACK = 0.1
"""Largest excess of primes taken that is no sign of following them."""
NO_KNOWN = "the model has no fact right that the baselines have wrong"
Firsts = dict[str, dict[str, float]]
"""For each fact, how often each entity is the first answer."""


class Alteration(NamedTuple):
    """One run with altered sentences, against the unmodified run of its model.

    :param numbers: the columns of :func:`altered_table`; those without a value lack facts that the model knows, or
        sentences with a prime.
    :param over_half: "same of known" − ½, tested.
    :param more: "prime" less "anyway", and less "by chance"; empty if no sentence has a prime.
    :param knows: contrasts with the baselines on the unmodified sentences.
    """

    numbers: dict[str, Any]
    over_half: Estimate | None
    more: tuple[Estimate, ...]
    knows: tuple[Contrast, ...]

    @property
    def how(self) -> str:
        """How the sentences are altered."""
        return str(self.numbers["alteration"])

    @property
    def asked(self) -> tuple[str, ...]:
        """Model, data and reading."""
        return tuple(self.numbers[name] for name in ("model", "data", "reading"))


def alterations(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> list[Alteration]:
    """Pair each altered run with the unmodified run of the same model, data set and reading, where there is one.

    :raises BadInput: two unmodified runs, no fact in common, or other candidates.
    """
    results = []
    for outcomes in grouped((_identity(run), run) for run in read_all_facts(runs, scoring, cluster, None)).values():
        plain = [outcome for outcome in outcomes if outcome.alteration == UNALTERED]
        altered = [outcome for outcome in outcomes if outcome.alteration != UNALTERED]
        if len(plain) > 1 and altered:
            raise BadInput(
                f"{plain[0].path} and {plain[1].path} are both unmodified runs of {plain[0].model} on {plain[0].data}: "
                "give one with the altered runs"
            )
        if plain and altered:
            first = _first_template(plain[0])
            baselines = RunBaselines(first)
            results += [_alteration(outcome, first, baselines) for outcome in altered]
    return results


def altered_claims(lines: Sequence[Alteration]) -> list[Claim]:
    """Declare, for misprimed and negated runs, that the model follows keywords, and that it does not."""
    claims = []
    for line in lines:
        if line.how == MISPRIMED and line.more:
            anyway, chance = line.more
            most = max(line.more, key=lambda number: number.value)
            follows = [
                Contrast("takes the prime more often than without it", anyway, 1),
                Contrast("takes the prime more often than by chance", chance, 1),
            ]
            slack = estimates.against_value(most, SLACK)
            less = Contrast(f"takes the prime less than {100 * SLACK:.0f} % more often", slack, -1)
            claims += _both(line, follows, [less, _keeps(line)])
        elif line.how == NEGATED:
            follows = [*line.knows, Contrast("keeps more known answers than it changes", line.over_half, 1, NO_KNOWN)]
            others = [second for second in lines if second.how != NEGATED and second.asked == line.asked]
            keeps = max(
                map(_keeps, others),
                key=lambda contrast: contrast.estimate.value if contrast.estimate else -np.inf,
                default=_NOT_KEPT,
            )
            over_half = line.over_half
            changes = Contrast("changes more known answers than it keeps", over_half, -1, NO_KNOWN)
            claims += _both(line, follows, [changes, keeps])
    return claims


_NOT_KEPT = Contrast(
    "keeps known answers where the meaning stays", None, 1, "no run with --alter misprimed, paraphrased or truncated"
)


def _both(line: Alteration, follows: Sequence[Contrast], does_not: Sequence[Contrast]) -> list[Claim]:
    about = f"{line.asked[0]} on {line.asked[1]}, {line.how}"
    return [Claim(f"{about}: {FOLLOWS}", tuple(follows)), Claim(f"{about}: {DOES_NOT}", (*line.knows, *does_not))]


def _keeps(line: Alteration) -> Contrast:
    return Contrast(f"keeps most known answers when {line.how}", line.over_half, 1, NO_KNOWN)


def _first_template(plain: RunFacts) -> RunFacts:
    """Select each query's predictions by its first template or sentence."""
    queries, templates = plain.rows.query[plain.places], plain.rows.template[plain.places]
    first = np.full(len(plain.rows.query_ids), np.iinfo(np.int64).max)
    np.minimum.at(first, queries, templates)
    of_first = templates == first[queries]
    if of_first.all():
        return plain
    return RunFacts(plain.run, plain.rows, plain.scoring, plain.model, plain.places[of_first], "wording:first")


def _identity(outcome: RunFacts) -> tuple[str, str, str, str, str]:
    """Return the properties of runs that differ in their sentences alone; "auto" is a reading of its own here."""
    return outcome.model, outcome.data, outcome.options.get("reading", "auto"), outcome.probe, outcome.scoring


def _alteration(altered: RunFacts, plain: RunFacts, baselines: RunBaselines) -> Alteration:
    facts = common_facts([altered, plain])
    before, after = firsts = [_first_answers(outcome) for outcome in (plain, altered)]
    same = np.full(len(altered.facts), np.nan)
    same[altered.at(facts)] = [
        sum(share * after[fact].get(id_, 0.0) for id_, share in before[fact].items()) for fact in facts
    ]
    primes, known_facts = _primes(altered, facts), baselines.known(facts)
    hits = [altered.hits(1), plain.hits(1)]
    over_half = None
    if known_facts:
        at, name = altered.at(known_facts), "same answer of the known − ½"
        share = estimates.mean(same[at], altered.sample(known_facts), altered.recipe(name))
        over_half = estimates.against_value(share, MOST)
    claim = baselines.claim(1, facts)
    primed, more = _primed(altered, plain, primes, firsts) if primes else (dict.fromkeys(OF_PRIMES), ())
    numbers = {
        "model": plain.model,
        "data": plain.data,
        "reading": plain.reading,
        "alteration": altered.alteration,
        "path": altered.path,
        "facts": len(facts),
        "accuracy": plain.mean(ACCURACY, hits[1], facts),
        "altered accuracy": altered.mean(ACCURACY, hits[0], facts),
        "change": difference(ACCURACY, altered, plain, hits, facts),
        "same answer": altered.mean("same answer", same, facts),
        "same of known": altered.mean("same answer of the known", same, known_facts) if known_facts else None,
        **primed,
    }
    return Alteration(numbers, over_half, more, claim.contrasts if claim else ())


def _first_answers(outcome: RunFacts) -> Firsts:
    prompts = grouped(zip(outcome.fact_of.tolist(), outcome.places.tolist(), strict=True))
    top_scores, firsts = outcome.rows.table.column("top_scores"), Firsts()
    for fact, places in prompts.items():
        shares: dict[str, float] = {}
        for place in places:
            scores: list[float] = top_scores[place].as_py() or []
            ids = outcome.rows.best(place)
            best = [ids[rank] for rank, score in enumerate(scores[: len(ids)]) if score == scores[0]]  # ties share it
            for id_ in best:
                shares[id_] = shares.get(id_, 0.0) + 1 / (len(best) * len(places))
        firsts[outcome.facts[fact]] = shares
    return firsts


def _primes(altered: RunFacts, facts: Sequence[str]) -> dict[str, str]:
    common, of_query = set(facts), zip(altered.facts, altered.queries, strict=True)
    primes = ((fact, altered.rows.text_of(query, PRIME)) for fact, query in of_query if fact in common)
    return {fact: prime for fact, prime in primes if prime}


def _primed(
    altered: RunFacts, plain: RunFacts, primes: dict[str, str], firsts: Sequence[Firsts]
) -> tuple[dict[str, Estimate], tuple[Estimate, Estimate]]:
    """Return how often the first answer is the prime, and how much more often than without it and by chance.

    :param firsts: of the plain, and of the altered.
    """
    name, facts = "answers the prime", list(primes)
    before, after = columns = [np.full(len(side.facts), np.nan) for side in (plain, altered)]
    for side, answers, values in zip((plain, altered), firsts, columns, strict=True):
        values[side.at(facts)] = [answers[fact].get(prime, 0.0) for fact, prime in primes.items()]
    chance = _share_of_others_primes(altered, primes, firsts[1])
    shares = altered.mean(name, after, facts), plain.mean(name, before, facts), altered.mean(name, chance, facts)
    more = (
        difference(name, altered, plain, [after, before], facts),
        difference(name, altered, altered, [after, chance], facts),
    )
    return dict(zip(OF_PRIMES, shares, strict=True)), more


def _share_of_others_primes(outcome: RunFacts, primes: dict[str, str], firsts: Firsts) -> Floats:
    """Return the chance that a fact's first answer is a wrong one among the primes of the relation's other facts."""
    shares = np.full(len(outcome.facts), np.nan)
    facts = list(primes)
    relations, golds = outcome.relations_of(facts), outcome.gold_ids_of(facts)
    called = {relation: Counter(ids) for relation, ids in grouped(zip(relations, primes.values(), strict=True)).items()}
    for fact, relation, gold in zip(facts, relations, golds, strict=True):
        times, prime = called[relation], primes[fact]
        wrong = times.total() - 1 - sum(times[id_] for id_ in gold)
        taken = sum(share * (times[id_] - (id_ == prime)) for id_, share in firsts[fact].items() if id_ not in gold)
        shares[outcome.place[fact]] = taken / wrong if wrong else 0.0
    return shares


def altered_table(lines: Sequence[Alteration]) -> Table:
    """Return one line per altered run: what the alteration costs, what stays, and how often the prime is taken."""
    notes = [
        "change: altered minus unmodified, paired by fact; same of known: of facts that no baseline has right",
        "prime: first answers that are the prime; anyway: without it; by chance: the primes of other facts",
    ]
    rows, hidden = [line.numbers for line in lines], ("data", "reading", "path", "p")
    table = Table.of(rows, "altered sentences", notes, main="change", hidden=hidden)
    return table.without_empty("same of known", *OF_PRIMES)
