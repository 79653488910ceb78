"""What the readers of data share: faults, and the rules of answer spaces.

:class:`Faults` is defined in :mod:`fathom.reading`; formats of others import it from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fathom.reading import Faults

__all__ = ["LONGEST_NAME", "Faults", "check_answer_space"]

LONGEST_NAME = 20_000
"""Characters of a name; what is longer is a text, and would keep a model busy for hours."""


def check_answer_space(
    file: Path, line: int | None, where: str, ids: Sequence[str | None], labels: Sequence[str | None], faults: Faults
) -> None:
    """The rules every answer space keeps: as many ids as labels, no answer empty, none twice."""
    if len(ids) != len(labels):
        faults.add(file, line, f"{where}: {len(ids)} answer ids for {len(labels)} answers")
    for place, label in enumerate(labels):
        if not isinstance(label, str) or not label.strip():
            faults.add(file, line, f"{where}: answer {place} is empty ({label!r})")
    for kind, values in (("answer", labels), ("answer id", ids)):
        for value, count in Counter(map(str, values)).items():
            if count > 1 and value.strip():
                faults.add(file, line, f"{where}: {kind} {value!r} stands more than once in the answer space")
