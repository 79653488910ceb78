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
from fathom.reading import Json
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


def read_review(path: Path) -> list[Json]:
    """Summarise judged sentences by type, and for all types if there are several.

    :returns: rows of the table; shares with 95 % intervals, kappa over sentences that both judged.
    :raises BadInput: no such table, a judgement that is neither yes nor no, or no judgement at all.
    """
    by_type: dict[str, list[tuple[str, ...]]] = {}
    for row, judgements in _judged(path, SENTENCES, "type"):
        by_type.setdefault(row["type"], []).append(judgements)
    everything = [judgements for rows in by_type.values() for judgements in rows]
    parts = by_type if len(by_type) == 1 else {**by_type, "all": everything}
    return [{"type": type_, "sentences": len(rows)} | _summarise(rows) for type_, rows in parts.items()]


def _summarise(rows: list[tuple[str, ...]]) -> Json:
    from fathom.metrics.descriptive import cohen_kappa, share_interval  # with scipy, which building does not need

    summary: Json = {}
    known = []
    for number in (1, 2):
        column = [row[number - 1] for row in rows if row[number - 1]]
        share = share_interval(column.count(YES), len(column))
        known += [share[0]] if column else []
        names = (f"{name} {number}" for name in ("judged by", "factual by", "low", "high"))
        summary |= zip(names, (len(column), *share), strict=True)
    pairs = [(first == YES, second == YES) for first, second in rows if first and second]
    return summary | {
        "mean": sum(known) / len(known) if known else float("nan"),
        "judged by both": len(pairs),
        "agreed": sum(first == second for first, second in pairs) / len(pairs) if pairs else float("nan"),
        "kappa": cohen_kappa([first for first, _ in pairs], [second for _, second in pairs]),
    }


def _sentences_table(results: Sequence[Json]) -> Table:
    shares = [name for name in results[0] if name.split()[0] in ("factual", "low", "high", "mean", "agreed")]
    note = "factual: share of those judged, with Wilson's interval; kappa: Cohen's, over those judged by both"
    formats = dict.fromkeys(shares, ".1%") | {"kappa": ".3f"}
    return Table.of(results, "judgements of the reviewers", (note,), formats=formats)


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
        AuditShare._fields,
        tuple(results),
        "judgements of instances",
        formats=dict.fromkeys(("share", "low", "high"), ".1%"),
        notes=("share: of those that are not unclear (unclear: of all judged), with Wilson's interval",),
    )
