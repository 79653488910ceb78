"""Whether a relation's templates fit its names, and a sheet on which a person sees them filled."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fathom.building.bear.plan import BearPlan, RelationPlan
from fathom.building.bear.sampling import ChosenRelation
from fathom.building.sheets import write_sheet
from fathom.data.templates import Template

SHEET = "templates.csv"
COLUMNS, OF_MODEL = ("relation", "template", "sentence", "correct", "better"), "model"
Judge = Callable[[Sequence[str]], Sequence[str]]
"""Given sentences, what a chat model says of each."""
EXAMPLES = 5
"""Filled examples of each template, as in section 4.4."""
_SLOT = re.compile(r"\b(an?|the)\s+\[([XY])\]", re.IGNORECASE)
_VOWEL = re.compile(r"[aeiouAEIOU]")


def slot_notes(relation: RelationPlan, chosen: ChosenRelation) -> Iterator[str]:
    """What is odd about the places of the names: articles that do not fit, ends without a full stop.

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
    """By letters, not by sounds: "a university" is taken for wrong."""
    if name.lower().startswith(("the ", "a ", "an ")):
        return True
    return article != "the" and (article == "an") != bool(_VOWEL.match(name))


def write_template_sheet(
    path: Path, plan: BearPlan, chosen: Mapping[str, ChosenRelation], judge: Judge | None = None
) -> None:
    """Each template with drawn subjects and their answers, for a person who says which sentences are correct.

    :param judge: a chat model's opinion, in a column of its own.
    """
    rows = list(_rows(plan, chosen))
    if judge is None:
        write_sheet(path, COLUMNS, rows)
    else:
        opinions = judge([row["sentence"] for row in rows])
        write_sheet(
            path, (*COLUMNS, OF_MODEL), (row | {OF_MODEL: said} for row, said in zip(rows, opinions, strict=True))
        )


def _rows(plan: BearPlan, chosen: Mapping[str, ChosenRelation]) -> Iterator[dict[str, str]]:
    for relation in plan.relations:
        if relation.property not in chosen:
            continue
        pairs = [(one.name, answer.name) for answer in chosen[relation.property].answers for one in answer.instances]
        drawn = _drawn(pairs, f"{plan.seed} {relation.property} templates")
        for text in relation.templates:
            for subject, answer in drawn:
                filled = Template(text).fill(subject, answer).text
                yield {"relation": relation.property, "template": text, "sentence": filled}


def _drawn(pairs: Sequence[tuple[str, str]], seed: str) -> list[tuple[str, str]]:
    return random.Random(seed).sample(list(pairs), min(EXAMPLES, len(pairs)))
