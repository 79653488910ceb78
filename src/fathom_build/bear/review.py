"""Lists for review by a person (outliers, filled templates), and tables about a probe that was built.

An outlier is not of the majority's class, at most a few levels above the answers' own (P31, P279; section 4.2).
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.reading import Faults, repetition
from fathom.data.queries import QuerySet
from fathom.data.statistics import CountTokens, majority_share, random_baseline, relation_statistics
from fathom.data.templates import Template
from fathom.results.tables import Cell, Table
from fathom_build.bear.balance import ONE_TO_ONE, ChosenRelation
from fathom_build.bear.facts import FactPool, FactStore, Log
from fathom_build.bear.plan import BearPlan, RelationPlan
from fathom_build.sheets import INSTANCES, REVIEW_FILE, read_sheet, write_sheet

LEVELS = 2
"""Classes above its own that an answer is also of."""
SHARE = 0.8
"""Share of the answers whose common class the others should have, too."""
COLUMNS = ("relation", "id", "name", "is a", "why", "in", "decision", "comment")
KEEP, DROP = "keep", "drop"
_DECISIONS = {"keep": KEEP, "k": KEEP, "yes": KEEP, "drop": DROP, "d": DROP, "no": DROP, "": ""}


class Outlier(NamedTuple):
    """An answer, or a subject that somebody has put on the list.

    :param decision: "keep", "drop", or "" where it is undecided.
    """

    relation: str
    number: int
    name: str
    kinds: str
    why: str
    decision: str = ""
    comment: str = ""


Decisions = dict[tuple[str, int], Outlier]
"""A person's decisions on subjects and answers, by relation and number."""


def read_decisions(path: Path | None, relations: Iterable[str]) -> Decisions:
    """Read the review file of an earlier build, as a person has filled it in.

    :raises BadInput: not such a file, and every row that is wrong in it.
    """
    if path is None:
        return {}
    faults, properties = Faults(), set(relations)
    decisions: Decisions = {}
    lines: dict[tuple[str, str], int] = {}
    whose = f"the {REVIEW_FILE} of fathom build bear"
    for line, row in read_sheet(path, {"relation", "id", "decision"}, COLUMNS, whose):
        decision, id_ = row["decision"].strip().lower(), row["id"].strip()
        if decision not in _DECISIONS:
            faults.add(path, line, f"decision: expected {KEEP} or {DROP}, found {row['decision'].strip()[:40]!r}")
        elif not (id_[:1] == "Q" and id_[1:].isdecimal()):
            faults.add(path, line, f"id: expected such as Q42, found {id_[:40]!r}")
        elif row["relation"] not in properties:
            faults.add(path, line, f"relation {row['relation']!r} is not in the plan")
        elif why := repetition(lines, (row["relation"], id_), line, f"{id_} of {row['relation']}"):
            faults.add(path, line, why)
        else:
            cells = (row.get("name", ""), row.get("is a", ""), row.get("why", ""), _DECISIONS[decision])
            outlier = Outlier(row["relation"], int(id_[1:]), *cells, row.get("comment", ""))
            decisions[outlier.relation, outlier.number] = outlier
    faults.stop_if_any()
    return decisions


def write_decisions(path: Path, outliers: Iterable[Outlier], used: Mapping[tuple[str, int], Sequence[str]]) -> None:
    """Write the list for review, undecided outliers first.

    :param used: variants that have an answer, by relation and number.
    """
    ordered = sorted(outliers, key=lambda outlier: bool(outlier.decision))
    rows = []
    for outlier in ordered:
        variants = "; ".join(used.get((outlier.relation, outlier.number), ()))
        cells = (
            outlier.relation,
            f"Q{outlier.number}",
            outlier.name,
            outlier.kinds,
            outlier.why,
            variants,
            outlier.decision,
            outlier.comment,
        )
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    write_sheet(path, COLUMNS, rows)


def outliers_of(store: FactStore, pool: FactPool, decisions: Decisions) -> list[Outlier]:
    """Return the answers of another kind than most of their relation, with decisions."""
    relation = pool.relation.property
    kinds = {answer.number: kinds_of(store, answer.types) for answer in pool.answers}
    most, why = majority(kinds.values()), dict[int, str]()
    if most is not None and 2 * most[1] >= len(kinds):
        message = f"{most[1]} of {len(kinds)} answers are of the class {store.label(most[0])}, this is not"
        why = {number: message for number, classes in kinds.items() if most[0] not in classes}
    outliers = []
    for answer in pool.answers:
        reason, before = why.get(answer.number, ""), decisions.get((relation, answer.number))
        if reason or before is not None:
            called = ", ".join(store.label(type_) for type_ in answer.types)
            reason = reason or (before.why if before else "")
            decision = (before.decision, before.comment) if before else ("", "")
            outliers.append(Outlier(relation, answer.number, answer.name, called, reason, *decision))
    listed = {outlier.number for outlier in outliers}
    return outliers + [
        outlier for (of, number), outlier in decisions.items() if of == relation and number not in listed
    ]


def kinds_of(store: FactStore, types: Iterable[int]) -> dict[int, int]:
    """Return an entity's classes, with how many levels each is above its own."""
    levels_above = dict.fromkeys(types, 0)
    frontier = list(levels_above)
    for level in range(1, LEVELS + 1):
        frontier = [above for class_ in frontier for above in store.above(class_) if above not in levels_above]
        levels_above |= dict.fromkeys(frontier, level)
    return levels_above


def majority(kinds: Iterable[Mapping[int, int]], share: float = SHARE) -> tuple[int, int] | None:
    """Return the class nearest to their own that at least *share* have; otherwise the most frequent one.

    :param kinds: of each, see :func:`kinds_of`.
    :returns: its number, and how many are of it; None where nothing has a class.
    """
    levels = list(kinds)
    times = Counter(class_ for classes in levels for class_ in classes)
    steps: Counter[int] = Counter()
    for classes in levels:
        steps.update(classes)
    enough = [class_ for class_, count in times.items() if count >= share * len(levels)]
    if enough:
        best = min(enough, key=lambda class_: (steps[class_] / times[class_], -times[class_], class_))
    elif times:
        best = min(times, key=lambda class_: (-times[class_], steps[class_], class_))
    else:
        return None
    return best, times[best]


def write_audit(path: Path, plan: BearPlan, choices: Mapping[str, ChosenRelation], size: int) -> None:
    """Write randomly drawn instances for a person to compare with Wikidata, where ranks and references are."""
    templates = {relation.property: relation.templates[0] for relation in plan.relations}
    pairs = [
        (name, instance, answer)
        for name in choices
        for answer in choices[name].answers
        for instance in answer.instances
    ]
    drawn = random.Random(f"{plan.seed} audit").sample(pairs, min(size, len(pairs)))
    write_sheet(
        path,
        INSTANCES,
        (
            {
                "relation": relation,
                "statement": Template(templates[relation]).fill(instance.name, answer.name).text,
                "subject": instance.name,
                "subject_id": f"Q{instance.subject}",
                "answer": answer.name,
                "answer_id": f"Q{answer.number}",
                "source": f"https://www.wikidata.org/wiki/Q{instance.subject}#{relation}",
            }
            for relation, instance, answer in drawn
        ),
    )


SHEET = "templates.csv"
TEMPLATE_COLUMNS = ("relation", "template", "sentence", "correct", "better")
EXAMPLES = 5
"""Filled examples of each template, as in section 4.4."""
_SLOT = re.compile(r"\b(an?|the)\s+\[([XY])\]", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiouAEIOU]")


def slot_notes(relation: RelationPlan, choice: ChosenRelation) -> Iterator[str]:
    """Yield faults around the names' slots: articles that do not fit, ends without a full stop.

    Of English templates; what is no English word is passed over.
    """
    names = {
        "X": [instance.name for answer in choice.answers for instance in answer.instances],
        "Y": [answer.name for answer in choice.answers],
    }
    for text, count in Counter(relation.templates).items():
        if count > 1:
            yield f"{relation.property}: template {text!r} stands {count} times"
        if not text.rstrip().endswith((".", "!", "?")):
            yield f"{relation.property}: template {text!r} does not end with a full stop"
        if text != " ".join(text.split()):
            yield f"{relation.property}: template {text!r} has doubled blanks or breaks"
        for article, slot in _SLOT.findall(text):
            wrong = [name for name in names[slot] if _misfits(article.lower(), name)]
            if wrong:
                yield (
                    f"{relation.property}: template {text!r} puts {article!r} before {len(wrong)} of "
                    f"{len(names[slot])} names that want another or none, such as {wrong[0]!r}"
                )


def _misfits(article: str, name: str) -> bool:
    """Return whether an article does not fit, by letters, not by sounds: "a university" is taken for wrong."""
    if name.lower().startswith(("the ", "a ", "an ")):
        return True
    return article != "the" and (article == "an") != bool(_VOWEL.match(name))


def write_template_sheet(path: Path, plan: BearPlan, choices: Mapping[str, ChosenRelation]) -> None:
    """Write each template with drawn subjects and their answers."""
    rows = []
    for relation in plan.relations:
        if relation.property not in choices:
            continue
        pairs = [
            (instance.name, answer.name)
            for answer in choices[relation.property].answers
            for instance in answer.instances
        ]
        drawn = random.Random(f"{plan.seed} {relation.property} templates").sample(pairs, min(EXAMPLES, len(pairs)))
        for text in relation.templates:
            filled = (Template(text).fill(subject, answer).text for subject, answer in drawn)
            rows += [{"relation": relation.property, "template": text, "sentence": sentence} for sentence in filled]
    write_sheet(path, TEMPLATE_COLUMNS, rows)


PUBLISHED: tuple[tuple[Cell, ...], ...] = (
    ("BEAR-big (published)", 40_916, 78, 14, 64, 596.9),
    ("BEAR (published)", 7_731, 60, 14, 46, 149.8),
)
"""Rows of table 2 of Wiland et al. 2024, whose average excludes the 1:1 relations."""
_TABLE_2 = ("instances", "relations", "1:1 relations", "N:1 relations", "instances per N:1 relation")


def sizes(by_variant: Mapping[str, Sequence[ChosenRelation]]) -> Table:
    """Tabulate the sizes of each variant next to the published values (table 2 of the paper).

    :param by_variant: relations of each variant, the infeasible ones left out.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, relations in by_variant.items():
        single = sum(relation.cardinality == ONE_TO_ONE for relation in relations)
        many = [relation.total for relation in relations if relation.cardinality != ONE_TO_ONE]
        mean = sum(many) / len(many) if many else None
        rows.append((name, sum(relation.total for relation in relations), len(relations), single, len(many), mean))
    note = "the average of BEAR's N:1 relations as the paper's table 2 has it"
    formats = {_TABLE_2[-1]: ".1f"}
    return Table(("variant", *_TABLE_2), (*rows, *PUBLISHED), "sizes (table 2)", formats=formats, notes=(note,))


def by_relation(variant: str, relations: Iterable[ChosenRelation]) -> Table:
    """Tabulate the configuration of each relation, and why those that are left out are infeasible."""
    rows = tuple(
        (relation.relation, relation.cardinality, relation.configuration, relation.total, relation.why or None)
        for relation in relations
    )
    columns = ("relation", "cardinality", "answers × instances", "instances", "infeasible")
    return Table(columns, rows, f"relations of {variant}").without_empty("infeasible")


def balance(variant: str, data: QuerySet, count_tokens: CountTokens | None) -> Table:
    """Tabulate which answers are one token (table 1 of the paper), and how even the answers are.

    :param count_tokens: of each text; None leaves table 1 out.
    """
    single = ("one token", "one token after a space") if count_tokens is not None else ()
    rows: list[tuple[Cell, ...]] = []
    for entry in relation_statistics(data, count_tokens):
        answers = Counter(query.gold[0] for query in data.by_relation()[entry.relation])
        rows.append((entry.relation, entry.instances, entry.candidates, evenness(answers), entry.baseline,
                     entry.majority, *(entry.single_token or ())))  # fmt: skip
    queries = list(data.queries)
    means = [sum(float(row[place] or 0) for row in rows) / len(rows) for place in range(6, 6 + len(single))]
    largest = sum(majority_share(of) * len(of) for of in data.by_relation().values()) / len(queries)
    rows.append(("all", len(queries), None, None, random_baseline(data, queries), largest, *means))
    columns = ("relation", "instances", "answers", "balance", "random", "majority", *single)
    note = "balance: entropy of the answers divided by its greatest, 1 where all are equally frequent"
    formats = {"balance": ".3f"} | dict.fromkeys(("random", "majority", *single), ".1%")
    return Table(columns, tuple(rows), f"answers of {variant} (table 1)", formats=formats, notes=(note,))


def evenness(answers: Mapping[str, int]) -> float:
    """Return the entropy of the answers ÷ the greatest that so many answers can have; 1 for a single answer."""
    total = sum(answers.values())
    shares = [count / total for count in answers.values() if count]
    return -sum(share * math.log(share) for share in shares) / math.log(len(shares)) if len(shares) > 1 else 1.0


def left_out(log: Log, facts: Mapping[str, int], taken: Mapping[str, int]) -> Table:
    """Tabulate what was left out of all relations together, by reason.

    :param facts: of each relation, before any filter.
    :param taken: instances of each relation in the largest variant.
    """
    reasons: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    for (_, why), count in log.counts.items():
        reasons[why] += count
        relations[why] += count > 0
    rows: list[tuple[Cell, ...]] = [("facts that count", sum(facts.values()), len(facts))]
    rows += [(f"left out: {why}", count, relations[why]) for why, count in reasons.items() if count]
    rows.append(("instances of the largest variant", sum(taken.values()), sum(map(bool, taken.values()))))
    return Table(("step", "facts", "relations"), tuple(rows), "from facts to instances")
