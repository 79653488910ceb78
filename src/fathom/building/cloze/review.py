"""A sample of the sentences that two people judge: is it a fact? And what their judgements say.

Section 3.2.3 of Shaier et al.: 200 random prompts, the share that a reviewer counts as factual (92.5 % of the
chemicals', 96.0 % of the genes', averages of two); Cohen's kappa says how far the two agree beyond chance.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.building.sheets import Row, read_sheet, write_sheet
from fathom.errors import BadInput
from fathom.reading import Faults
from fathom.results.tables import Table

REVIEW_FILE = "review.csv"
REVIEWERS = ("reviewer_1", "reviewer_2")
COLUMNS = ("id", "type", "sentence", "answer", *REVIEWERS, "comment")
_YES = {"yes", "y", "1", "true", "factual"}
_NO = {"no", "n", "0", "false"}


class Reservoir:
    """So many of a stream of things, each as likely as every other (reservoir sampling)."""

    def __init__(self, size: int, seed: str) -> None:
        self.size, self._seen, self._random = size, 0, random.Random(seed)
        self.kept: list[tuple[int, Row]] = []

    def add(self, thing: Row) -> None:
        """The next of the stream."""
        self._seen += 1
        if len(self.kept) < self.size:
            self.kept.append((self._seen, thing))
        elif (place := self._random.randrange(self._seen)) < self.size:
            self.kept[place] = (self._seen, thing)

    def in_order(self) -> list[Row]:
        """What was drawn, in the order of the stream."""
        return [thing for _, thing in sorted(self.kept, key=lambda pair: pair[0])]


def write_review(path: Path, rows: Iterable[Row]) -> None:
    """A table for a spreadsheet, the judgements empty."""
    write_sheet(path, COLUMNS, rows)


class Judged(NamedTuple):
    """:param factual: share that each reviewer finds factual, of those they judged, with a 95 % interval.
    :param kappa: over the sentences that both judged, NaN where it is not defined.
    :param both: how many these are.
    """

    type: str
    sentences: int
    judged: tuple[int, int]
    factual: tuple[tuple[float, float, float], tuple[float, float, float]]
    mean: float
    both: int
    agreed: float
    kappa: float


def read_review(path: Path) -> list[Judged]:
    """One line per type, and one for all where there are several.

    :raises BadInput: not such a table, a judgement that is neither yes nor no, or no judgement at all.
    """
    faults = Faults()
    by_type: dict[str, list[tuple[bool | None, ...]]] = {}
    whose = f"the filled-in {REVIEW_FILE} of fathom build cloze"
    for line, row in read_sheet(path, {"type", *REVIEWERS}, COLUMNS, whose):
        judgements = tuple(_judgement(path, line, name, row[name], faults) for name in REVIEWERS)
        by_type.setdefault(row["type"], []).append(judgements)
    faults.stop_if_any()
    everything = [judgements for found in by_type.values() for judgements in found]
    if not any(judgement is not None for judgements in everything for judgement in judgements):
        raise BadInput(f"{path}: no judgements yet: write yes or no in {' and '.join(REVIEWERS)}")
    parts = by_type if len(by_type) == 1 else {**by_type, "all": everything}
    return [_judged(type_, found) for type_, found in parts.items()]


def _judgement(path: Path, line: int, column: str, text: str, faults: Faults) -> bool | None:
    """None for an empty cell."""
    said = text.strip().lower()
    if said in _YES or said in _NO:
        return said in _YES
    if said:
        faults.add(path, line, f"{column}: expected yes or no, found {text.strip()[:40]!r}")
    return None


def _judged(type_: str, rows: list[tuple[bool | None, ...]]) -> Judged:
    from fathom.metrics.descriptive import cohen_kappa, share_interval  # with scipy, which building does not need

    columns = [[row[place] for row in rows if row[place] is not None] for place in (0, 1)]
    pairs = [(first, second) for first, second in rows if first is not None and second is not None]
    shares = [share_interval(sum(map(bool, column)), len(column)) for column in columns]
    known = [share[0] for share, column in zip(shares, columns, strict=True) if column]
    return Judged(
        type_,
        len(rows),
        (len(columns[0]), len(columns[1])),
        (shares[0], shares[1]),
        sum(known) / len(known) if known else float("nan"),
        len(pairs),
        sum(first == second for first, second in pairs) / len(pairs) if pairs else float("nan"),
        cohen_kappa([first for first, _ in pairs], [second for _, second in pairs]),
    )


def review_table(found: Sequence[Judged]) -> Table:
    """Shares that are facts, by reviewer, and how far the two agree."""
    shown = ("judged by", "factual by", "low", "high")
    columns = ["type", "sentences", *(f"{what} {number}" for number in (1, 2) for what in shown)]
    rows = []
    for line in found:
        cells = [cell for n, share in zip(line.judged, line.factual, strict=True) for cell in (n, *share)]
        rows.append((line.type, line.sentences, *cells, line.mean, line.both, line.agreed, line.kappa))
    shares = [*(column for column in columns if column.split()[0] in ("factual", "low", "high")), "mean", "agreed"]
    return Table(
        (*columns, "mean", "judged by both", "agreed", "kappa"),
        tuple(rows),
        "judgements of the reviewers",
        formats=dict.fromkeys(shares, ".1%") | {"kappa": ".3f"},
        notes=("factual: share of those judged, with Wilson's interval; kappa: Cohen's, over those judged by both",),
    )
