"""Samples of a data set that people judge in a spreadsheet, and the results of their judgements.

Two reviewers judge sentences of a cloze data set as factual or not, as in Shaier et al., section 3.2.3: 200 random
prompts, and the share that a reviewer counts as factual (92.5 % for chemicals, 96.0 % for genes, averages of two).
Cohen's kappa measures agreement beyond chance. One reviewer compares instances of a balanced probe with their source.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fathom.building.sheets import Row, read_sheet, write_sheet
from fathom.errors import BadInput, refuse
from fathom.results.tables import Table

REVIEW_FILE, AUDIT_FILE = "review.csv", "audit.csv"
REVIEWERS = ("reviewer_1", "reviewer_2")
YES, NO = "yes", "no"
_LINES = 5
"""Further lines with the same fault that a message lists."""
RIGHT, WRONG, SEVERAL, UNCLEAR = "right", "wrong", "several right answers", "unclear"


class ReviewSheet(NamedTuple):
    """A kind of table for reviewers.

    :param judged: columns that they fill in.
    :param words: judgements, by what may be written for them.
    """

    columns: tuple[str, ...]
    judged: tuple[str, ...]
    words: Mapping[str, str]

    @property
    def expected(self) -> str:
        """The word to write for each judgement, for messages."""
        words: dict[str, str] = {}
        for word, judgement in self.words.items():
            words.setdefault(judgement, word)
        *first, last = words.values()
        return f"{', '.join(first)} or {last}"

    def write(self, path: Path, rows: Iterable[Row]) -> None:
        """Write a table for a spreadsheet with empty judgements."""
        write_sheet(path, self.columns, rows)


SENTENCES = ReviewSheet(
    ("id", "type", "sentence", "answer", *REVIEWERS, "comment"),
    REVIEWERS,
    dict.fromkeys(("yes", "y", "1", "true", "factual"), YES) | dict.fromkeys(("no", "n", "0", "false"), NO),
)
INSTANCES = ReviewSheet(
    ("relation", "statement", "subject", "subject_id", "answer", "answer_id", "source", "judgement", "comment"),
    ("judgement",),
    {"right": RIGHT, "r": RIGHT, "wrong": WRONG, "w": WRONG}
    | {"several": SEVERAL, SEVERAL: SEVERAL, "s": SEVERAL, "unclear": UNCLEAR, "u": UNCLEAR},
)


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


def review_table(path: Path) -> Table:
    """Summarise a filled-in table of either kind.

    :raises BadInput: no such table, an unknown judgement, or no judgement at all.
    """
    rows = read_sheet(
        path, (), (), f"the filled-in {REVIEW_FILE} of fathom build cloze, or {AUDIT_FILE} of fathom build bear"
    )
    is_audit = bool(rows) and set(INSTANCES.judged) <= rows[0][1].keys()
    return _instances_table(read_audit(path)) if is_audit else _sentences_table(read_review(path))


def _judged(path: Path, sheet: ReviewSheet, *needed: str) -> list[tuple[Row, tuple[str, ...]]]:
    """Return the rows, each with the judgement in each column, "" if there is none.

    :raises BadInput: one fault for each unknown word in each column, however often it is written.
    """
    lines: dict[tuple[str, str], list[int]] = {}
    rows = []
    for line, row in read_sheet(path, {*needed, *sheet.judged}, sheet.columns, f"the filled-in {REVIEW_FILE}"):
        given = [(name, " ".join(row[name].lower().split())) for name in sheet.judged]
        for name, word in given:
            if word and word not in sheet.words:
                lines.setdefault((name, word), []).append(line)
        rows.append((row, tuple(sheet.words.get(word, "") for _, word in given)))
    refuse(
        f"{path}:{own[0]}: {name}: expected {sheet.expected}, found {word[:40]!r}{_further(own[1:])}"
        for (name, word), own in lines.items()
    )
    if not any(judgement for _, judgements in rows for judgement in judgements):
        raise BadInput(f"{path}: no judgements yet: write {sheet.expected} in {' and '.join(sheet.judged)}")
    return rows


def _further(lines: Sequence[int]) -> str:
    """Return the first of further lines with the same fault, and how many more there are."""
    if not lines:
        return ""
    more = f" and {len(lines) - _LINES:,} more" if len(lines) > _LINES else ""
    return f"; also in lines {', '.join(map(str, lines[:_LINES]))}{more}"


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
    """Summarise judged sentences by type, and for all types if there are several.

    :raises BadInput: no such table, a judgement that is neither yes nor no, or no judgement at all.
    """
    by_type: dict[str, list[tuple[str, ...]]] = {}
    for row, judgements in _judged(path, SENTENCES, "type"):
        by_type.setdefault(row["type"], []).append(judgements)
    everything = [judgements for rows in by_type.values() for judgements in rows]
    parts = by_type if len(by_type) == 1 else {**by_type, "all": everything}
    return [_summarise(type_, rows) for type_, rows in parts.items()]


def _summarise(type_: str, rows: list[tuple[str, ...]]) -> Judgements:
    from fathom.metrics.descriptive import cohen_kappa, share_interval  # with scipy, which building does not need

    columns = [[row[place] for row in rows if row[place]] for place in (0, 1)]
    pairs = [(first, second) for first, second in rows if first and second]
    shares = [share_interval(column.count(YES), len(column)) for column in columns]
    known = [share[0] for share, column in zip(shares, columns, strict=True) if column]
    return Judgements(
        type_,
        len(rows),
        (len(columns[0]), len(columns[1])),
        (shares[0], shares[1]),
        sum(known) / len(known) if known else float("nan"),
        len(pairs),
        sum(first == second for first, second in pairs) / len(pairs) if pairs else float("nan"),
        cohen_kappa([first == YES for first, _ in pairs], [second == YES for _, second in pairs]),
    )


def _sentences_table(results: Sequence[Judgements]) -> Table:
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


class AuditShare(NamedTuple):
    """How often a judgement was made: instances, of how many, and the share with its 95 % interval."""

    judgement: str
    instances: int
    of: int
    share: float
    low: float
    high: float


def read_audit(path: Path) -> list[AuditShare]:
    """Summarise judged instances. Unclear ones do not count in the shares of the other judgements.

    :raises BadInput: no such table, an unknown judgement, or no judgement at all.
    """
    from fathom.metrics.descriptive import share_interval

    counts = Counter(judgement for _, (judgement,) in _judged(path, INSTANCES) if judgement)
    judged = counts.total()
    totals = dict.fromkeys((RIGHT, WRONG, SEVERAL), judged - counts[UNCLEAR]) | {UNCLEAR: judged}
    return [AuditShare(name, counts[name], of, *share_interval(counts[name], of)) for name, of in totals.items()]


def _instances_table(results: Sequence[AuditShare]) -> Table:
    return Table(
        ("judgement", "instances", "of", "share", "low", "high"),
        tuple(results),
        "judgements of instances",
        formats=dict.fromkeys(("share", "low", "high"), ".1%"),
        notes=("share: of those that are not unclear (unclear: of all judged), with Wilson's interval",),
    )
