"""What data sets share in which every question has its own few answers: the right one and distractors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fathom.data.queries import CandidateSet, Query, Relation, cardinality_of
from fathom.data.templates import ANSWER, SUBJECT, Sentence
from fathom.formats.base import Draft

_SHOWN = 3


class ClosedQuestion(NamedTuple):
    """A question.

    :param id: of the query.
    :param sentences: each with ``[Y]`` once, where the answer stands.
    :param right: names of the right answers.
    :param wrong: names of the others; those that are empty or right, too, are left out and noted.
    :param known: other right names, which are not ranked.
    :param ids: of names that have one; the others are their own.
    :param unscored: why it cannot be asked, where it cannot.
    """

    id: str
    relation: str
    sentences: Sequence[str]
    right: Sequence[str]
    wrong: Sequence[str]
    groups: Mapping[str, str]
    subject: str = ""
    subject_id: str = ""
    known: Sequence[str] = ()
    ids: Mapping[str, str] = {}
    unscored: str | None = None


@dataclass
class OwnAnswers:
    """Questions become queries of a draft, equal answers one candidate set.

    :param draft: what is read.
    """

    draft: Draft
    _spaces: dict[tuple[tuple[str, str], ...], CandidateSet] = field(default_factory=dict)
    _given: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    _lacking: list[str] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)

    def add(self, file: Path, line: int | None, asked: ClosedQuestion) -> None:
        """A query of it; what is wrong with it becomes a fault."""
        faults = self.draft.faults
        bad = [text for text in asked.sentences if text.count(ANSWER) != 1 or SUBJECT in text]
        if bad:
            faults.add(file, line, f"expected a prompt without {SUBJECT} and {ANSWER} in it, found {bad[0][:80]!r}")
        if not asked.right or not all(name.strip() for name in asked.right):
            faults.add(file, line, f"expected right answers, none empty, found {list(asked.right)}")
        if asked.id in self._taken:
            faults.add(file, line, f"{asked.id} stands above: a question must not stand twice")
        self._taken.add(asked.id)
        right = (*asked.right, *asked.known)
        wrong = [name for name in asked.wrong if name.strip() and name not in right]
        if len(wrong) < len(asked.wrong):
            self._lacking.append(asked.id)
        names = dict.fromkeys((*right, *wrong))
        key = tuple((asked.ids.get(name, name), name) for name in names)
        space = self._spaces.get(key)
        if space is None:
            space = self._spaces[key] = CandidateSet(asked.id, tuple(id_ for id_, _ in key), tuple(names))
            self.draft.candidates[space.name] = space
        gold, known = (tuple(asked.ids.get(name, name) for name in some) for some in (asked.right, asked.known))
        self._given[asked.relation] += gold
        self.draft.queries.append(
            Query(
                asked.id,
                asked.relation,
                asked.subject,
                asked.subject_id,
                gold,
                space.name,
                known=known,
                groups=asked.groups,
                unscored=asked.unscored,
                sentences=tuple(map(Sentence, dict.fromkeys(asked.sentences))),
            )
        )

    def finish(self, names: Mapping[str, str] | None = None) -> None:
        """The relations of all that was added, and one note on what was left out.

        :param names: of relations that have another than their id.
        """
        for id_, given in self._given.items():
            self.draft.relations[id_] = Relation(id_, (names or {}).get(id_, id_), (), cardinality_of(given))
        if self._lacking:
            some = ", ".join(self._lacking[:_SHOWN]) + (", …" if len(self._lacking) > _SHOWN else "")
            message = "wrong answers that are empty or right, too, left out of their question"
            self.draft.faults.note(self.draft.path, None, f"{message}: {len(self._lacking):,} ({some})")


def completed(prompt: str) -> str:
    """Return a prompt, or a question, followed by the answer's place."""
    return f"{prompt.rstrip()} {ANSWER}"
