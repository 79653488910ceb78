"""A sample of sentences that two reviewers judge as factual or not, and the results of their judgements.

Shaier et al., section 3.2.3: 200 random prompts, and the share that a reviewer counts as factual (92.5 % for chemicals,
96.0 % for genes, averages of two). Cohen's kappa measures agreement beyond chance.
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
    """A uniform random sample of a stream (reservoir sampling)."""

    def __init__(self, size: int, seed: str) -> None:
        self._size, self._seen, self._random = size, 0, random.Random(seed)
        self._sample: list[tuple[int, Row]] = []

    def add(self, thing: Row) -> None:
        """Offer the next item of the stream."""
        self._seen += 1
        if len(self._sample) < self._size:
            self._sample.append((self._seen, thing))
        elif (place := self._random.randrange(self._seen)) < self._size:
            self._sample[place] = (self._seen, thing)

    def in_order(self) -> list[Row]:
        """Return the sample, in the order of the stream."""
        return [thing for _, thing in sorted(self._sample, key=lambda pair: pair[0])]


def write_review(path: Path, rows: Iterable[Row]) -> None:
    """Write a table for a spreadsheet with empty judgements."""
    write_sheet(path, COLUMNS, rows)


class Judgements(NamedTuple):
    """Results of both reviewers for a type; shares with 95 % intervals, kappa over sentences that both judged."""

    type: str
    sentences: int
    judged: tuple[int, int]
    factual: tuple[tuple[float, float, float], tuple[float, float, float]]
    mean: float
    both: int
    agreed: float
    kappa: float


def read_review(path: Path) -> list[Judgements]:
    """Summarise a filled-in table by type, and for all types if there are several.

    :raises BadInput: no such table, a judgement that is neither yes nor no, or no judgement at all.
    """
    faults = Faults()
    by_type: dict[str, list[tuple[bool | None, ...]]] = {}
    description = f"the filled-in {REVIEW_FILE} of fathom build cloze"
    for line, row in read_sheet(path, {"type", *REVIEWERS}, COLUMNS, description):
        judgements = tuple(_judgement(path, line, name, row[name], faults) for name in REVIEWERS)
        by_type.setdefault(row["type"], []).append(judgements)
    faults.stop_if_any()
    everything = [judgements for rows in by_type.values() for judgements in rows]
    if not any(judgement is not None for judgements in everything for judgement in judgements):
        raise BadInput(f"{path}: no judgements yet: write yes or no in {' and '.join(REVIEWERS)}")
    parts = by_type if len(by_type) == 1 else {**by_type, "all": everything}
    return [_summarise(type_, rows) for type_, rows in parts.items()]


def _judgement(path: Path, line: int, column: str, text: str, faults: Faults) -> bool | None:
    answer = text.strip().lower()
    if answer in _YES or answer in _NO:
        return answer in _YES
    if answer:
        faults.add(path, line, f"{column}: expected yes or no, found {text.strip()[:40]!r}")
    return None


def _summarise(type_: str, rows: list[tuple[bool | None, ...]]) -> Judgements:
    from fathom.metrics.descriptive import cohen_kappa, share_interval  # with scipy, which building does not need

    columns = [[row[place] for row in rows if row[place] is not None] for place in (0, 1)]
    pairs = [(first, second) for first, second in rows if first is not None and second is not None]
    shares = [share_interval(sum(map(bool, column)), len(column)) for column in columns]
    known = [share[0] for share, column in zip(shares, columns, strict=True) if column]
    return Judgements(
        type_,
        len(rows),
        (len(columns[0]), len(columns[1])),
        (shares[0], shares[1]),
        sum(known) / len(known) if known else float("nan"),
        len(pairs),
        sum(first == second for first, second in pairs) / len(pairs) if pairs else float("nan"),
        cohen_kappa([first for first, _ in pairs], [second for _, second in pairs]),
    )


def review_table(results: Sequence[Judgements]) -> Table:
    """Show the shares of facts by reviewer, and their agreement."""
    by_reviewer = ("judged by", "factual by", "low", "high")
    columns = ["type", "sentences", *(f"{what} {number}" for number in (1, 2) for what in by_reviewer)]
    rows = []
    for line in results:
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
