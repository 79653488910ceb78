"""A chat model's opinion of which answers do not fit the others, and of filled templates: a person decides.

The system messages are those of figures 11 and 13 of Wiland et al. 2024, in ``outliers.txt`` and ``sentences.txt``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from fathom.building.bear.plan import RelationPlan
from fathom.reading import shown

SYSTEM, SENTENCES = (
    (Path(__file__).parent / name).read_text(encoding="utf-8").strip() for name in ("outliers.txt", "sentences.txt")
)
CORRECT = "correct"
AT_ONCE = 100
"""Answers in one question: BEAR-big's largest answer space."""
Ask = Callable[[str, Sequence[str]], Sequence[str]]
"""Given a system message and questions, the replies; "" where there is none."""
_CORRECT = re.compile(r"\W*correct\W*", re.IGNORECASE)
_TUPLE = re.compile(r"\(\s*\[.*\]\s*,.*\)", re.DOTALL)


class ChatFlags:
    """:param ask: asks a chat model.
    :param name: of that model.
    """

    def __init__(self, ask: Ask, name: str) -> None:
        self._ask, self.name = ask, name
        self.notes: list[str] = []

    def __call__(self, relation: RelationPlan, answers: Sequence[str]) -> list[str]:
        """Names that the model says do not fit; what it says of others is passed over, and noted."""
        parts = [answers[start : start + AT_ONCE] for start in range(0, len(answers), AT_ONCE)]
        replies = self._ask(SYSTEM, [question(relation, part) for part in parts])
        flagged_names = []
        for part, reply in zip(parts, replies, strict=True):
            flagged = read_reply(reply)
            if flagged is None:
                self.notes.append(f"{relation.property}: {self.name} gave no list of outliers: {shown(reply)}")
            else:
                flagged_names += [name for name in flagged if name in part]
        return flagged_names

    def judged(self, sentences: Sequence[str]) -> list[str]:
        """Of each sentence "correct", or what the model says instead; "" where it gave no reply."""
        replies = self._ask(SENTENCES, list(sentences))
        said = [CORRECT if _CORRECT.fullmatch(reply) else " ".join(reply.split()) for reply in replies]
        doubted = sum(reply not in (CORRECT, "") for reply in said)
        if doubted:
            self.notes.append(f"{self.name} doubts {doubted} of {len(sentences)} filled templates: see templates.csv")
        return said


def question(relation: RelationPlan, answers: Sequence[str]) -> str:
    """What is asked of one relation."""
    said = {"label": relation.name or relation.property, "description": relation.description or relation.templates[0]}
    return repr(said | {"answers": list(answers)})


def read_reply(reply: str) -> list[str] | None:
    """The list of a reply such as ``(['Berlin'], 'countries')``; None where it has none."""
    match = _TUPLE.search(reply.replace("’", "'").replace("‘", "'"))
    try:
        value = ast.literal_eval(match[0]) if match else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    names = value[0] if isinstance(value, tuple) and value else None
    return [str(name) for name in names] if isinstance(names, list) else None
