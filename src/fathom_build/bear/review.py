"""Lists for review by a person: answers of another kind than most of their relation, and filled templates.

The paper asked GPT-4 which answers "do not align with the majority category" and decided case by case (section 4.2,
figure 11). Here the majority is the class that most answers have, at most a few levels above their own (P31, P279), the
nearest first. Nothing is removed without a decision.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.base.reading import Faults, repetition
from fathom.data.templates import Template
from fathom_build.bear.balance import ChosenRelation
from fathom_build.bear.facts import FactStore
from fathom_build.bear.plan import BearPlan, RelationPlan
from fathom_build.bear.pools import FactPool
from fathom_build.review import INSTANCES, REVIEW_FILE
from fathom_build.sheets import read_sheet, write_sheet

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
    faults, known = Faults(), set(relations)
    decisions: Decisions = {}
    lines: dict[tuple[str, str], int] = {}
    whose = f"the {REVIEW_FILE} of fathom build bear"
    for line, row in read_sheet(path, {"relation", "id", "decision"}, COLUMNS, whose):
        given, id_ = row["decision"].strip().lower(), row["id"].strip()
        if given not in _DECISIONS:
            faults.add(path, line, f"decision: expected {KEEP} or {DROP}, found {row['decision'].strip()[:40]!r}")
        elif not (id_[:1] == "Q" and id_[1:].isdecimal()):
            faults.add(path, line, f"id: expected such as Q42, found {id_[:40]!r}")
        elif row["relation"] not in known:
            faults.add(path, line, f"relation {row['relation']!r} is not in the plan")
        elif why := repetition(lines, (row["relation"], id_), line, f"{id_} of {row['relation']}"):
            faults.add(path, line, why)
        else:
            cells = (row.get("name", ""), row.get("is a", ""), row.get("why", ""), _DECISIONS[given])
            one = Outlier(row["relation"], int(id_[1:]), *cells, row.get("comment", ""))
            decisions[one.relation, one.number] = one
    faults.stop_if_any()
    return decisions


def write_decisions(path: Path, outliers: Iterable[Outlier], used: Mapping[tuple[str, int], Sequence[str]]) -> None:
    """Write the list for review, undecided outliers first.

    :param used: variants that have an answer, by relation and number.
    """
    ordered = sorted(outliers, key=lambda one: bool(one.decision))
    rows = []
    for one in ordered:
        variants = "; ".join(used.get((one.relation, one.number), ()))
        cells = (one.relation, f"Q{one.number}", one.name, one.kinds, one.why, variants, one.decision, one.comment)
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
    listed = {one.number for one in outliers}
    return outliers + [one for (of, number), one in decisions.items() if of == relation and number not in listed]


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
    times = Counter(class_ for one in levels for class_ in one)
    steps: Counter[int] = Counter()
    for one in levels:
        steps.update(one)
    enough = [class_ for class_, count in times.items() if count >= share * len(levels)]
    if enough:
        best = min(enough, key=lambda class_: (steps[class_] / times[class_], -times[class_], class_))
    elif times:
        best = min(times, key=lambda class_: (-times[class_], steps[class_], class_))
    else:
        return None
    return best, times[best]


def write_audit(path: Path, plan: BearPlan, chosen: Mapping[str, ChosenRelation], size: int) -> None:
    """Write randomly drawn instances for a person to compare with Wikidata, where ranks and references are."""
    templates = {relation.property: relation.templates[0] for relation in plan.relations}
    pairs = [(name, one, answer) for name in chosen for answer in chosen[name].answers for one in answer.instances]
    drawn = random.Random(f"{plan.seed} audit").sample(pairs, min(size, len(pairs)))
    write_sheet(
        path,
        INSTANCES,
        (
            {
                "relation": relation,
                "statement": Template(templates[relation]).fill(one.name, answer.name).text,
                "subject": one.name,
                "subject_id": f"Q{one.subject}",
                "answer": answer.name,
                "answer_id": f"Q{answer.number}",
                "source": f"https://www.wikidata.org/wiki/Q{one.subject}#{relation}",
            }
            for relation, one, answer in drawn
        ),
    )


SHEET = "templates.csv"
TEMPLATE_COLUMNS = ("relation", "template", "sentence", "correct", "better")
EXAMPLES = 5
"""Filled examples of each template, as in section 4.4."""
_SLOT = re.compile(r"\b(an?|the)\s+\[([XY])\]", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiouAEIOU]")


def slot_notes(relation: RelationPlan, chosen: ChosenRelation) -> Iterator[str]:
    """Yield faults around the names' slots: articles that do not fit, ends without a full stop.

    Of English templates; what is no English word is passed over.
    """
    names = {
        "X": [one.name for answer in chosen.answers for one in answer.instances],
        "Y": [answer.name for answer in chosen.answers],
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


def write_template_sheet(path: Path, plan: BearPlan, chosen: Mapping[str, ChosenRelation]) -> None:
    """Write each template with drawn subjects and their answers."""
    rows = []
    for relation in plan.relations:
        if relation.property not in chosen:
            continue
        pairs = [(one.name, answer.name) for answer in chosen[relation.property].answers for one in answer.instances]
        draw = random.Random(f"{plan.seed} {relation.property} templates")
        drawn = draw.sample(pairs, min(EXAMPLES, len(pairs)))
        for text in relation.templates:
            filled = (Template(text).fill(subject, answer).text for subject, answer in drawn)
            rows += [{"relation": relation.property, "template": text, "sentence": sentence} for sentence in filled]
    write_sheet(path, TEMPLATE_COLUMNS, rows)
