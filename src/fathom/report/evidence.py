"""What runs said of each fact, in columns small enough for a browser.

A *view* is one run in one scoring. A *fact* has its ``fact_id``, or its query's id. Each prediction is a row; texts are
numbers into one pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.templates import capitalized
from fathom.results.declarations import NATS
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts, names_of
from fathom.results.names import distinguished
from fathom.results.rows import NONE, Floats, Ints, Rows
from fathom.store.folder import RunFolder

Array = npt.NDArray[Any]
_WIDTHS = {False: ("u1", "u2", "u4"), True: ("i1", "i2", "i4")}
UNTOLD = -(2**31)
"""Among thousandths: there is no number."""
ANSWERS = 5
"""So many of the best answers are shown of each prediction."""
SUBJECT, CAPITAL = "\ufdd0", "\ufdd1"
"""In a prompt's pattern: the subject, and the subject with a capital letter. No text may have these characters."""
_NOT_SHOWN = re.compile("[\0-\x08\x0b-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_INHERITED = re.compile(
    "__proto__|__(define|lookup)[GS]etter__|constructor|to(Locale)?String|valueOf|hasOwnProperty|isPrototypeOf"
    "|propertyIsEnumerable"
)
"""What every object of a script has, which Vega takes for its own entries."""
MANY = 200
"""A group with more values than that tells queries apart, such as a document: it is no slice."""


def showable(text: str) -> str:
    """What a page can hold of it: "\ufffd" stands for each control character and half of a character, and names that a
    script's objects have end in an invisible character."""
    return without_controls(text) + "\u2060" * bool(_INHERITED.fullmatch(text))


def without_controls(text: str) -> str:
    """What a page can hold of a text of its own."""
    return _NOT_SHOWN.sub("\ufffd", text)


class View(NamedTuple):
    """One run in one scoring.

    :param name: what tables call it; "" until all are known.
    :param unit: of its scores: nats, cosine, score or credit.
    :param attention: causal or masked, "" where neither.
    :param parameters: of its model, None where nobody knows.
    :param accuracy: over the facts of which every prediction is scored.
    """

    name: str
    model: str
    probe: str
    scoring: str
    data: str
    reading: str
    wording: str
    path: str
    unit: str
    attention: str
    parameters: int | None
    accuracy: Estimate


class Pool:
    """Texts by number, each once; 0 is the empty text."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        """Its number."""
        return self._place.setdefault(text, len(self._place))

    def add_all(self, texts: Iterable[str]) -> Ints:
        """Their numbers."""
        return np.fromiter((self.add(text) for text in texts), dtype=np.int64)

    @property
    def texts(self) -> list[str]:
        """In the order of their numbers."""
        return list(self._place)


class Predictions(NamedTuple):
    """Of one view, or of all end to end, each [n], in as few bytes as hold it: many runs are held at once.

    :param view: number of the view. :param fact: number of the fact.
    :param hit: credit, or expected Hits@1; NaN where it is not known or not scored.
    :param rank: realistic; −k where it is only known to be beyond k; NaN where there is none.
    :param confidence: probability of the best answer among all candidates; NaN where it cannot be told.
    :param length: tokens of the gold answer of the best score, 0 where the run does not say.
    :param prompt: its pattern in the pool, the fact's subject written :data:`SUBJECT` or :data:`CAPITAL`.
    :param reason: why it is unscored, in the pool; 0 where it is not.
    :param answers: the best ones in the pool, 0 beyond their end, [n, ANSWERS].
    :param right: which of these are: 1 for the best, 2 for the second, 4 for the third … together.
    :param values: of these, in thousandths: probabilities where the unit is nats and all scores were kept, else scores;
        :data:`UNTOLD` where there is none.
    :param score: of the best answer where it is no probability, such as a cosine; NaN.
    """

    view: Array
    fact: Array
    template: Array
    hit: Array
    rank: Array
    confidence: Array
    length: Array
    prompt: Array
    reason: Array
    answers: Array
    right: Array
    values: Array
    score: Array

    def places_of_views(self) -> list[slice]:
        """Where the predictions of each stand."""
        ends = [*np.flatnonzero(np.diff(self.view)) + 1, len(self.view)]
        return [slice(begin, end) for begin, end in pairwise([0, *ends]) if end > begin]

    def only(self, places: slice) -> Predictions:
        """Those that stand there."""
        return Predictions(*(own[places] for own in self))

    def each_view(self) -> Iterator[Predictions]:
        """The predictions of each."""
        return map(self.only, self.places_of_views())


def narrow(numbers: Array) -> Array:
    """The same in as few bytes as hold them: unsigned, signed where one is below 0, or of less precision where that is
    exact."""
    if numbers.dtype.kind == "f":
        with np.errstate(over="ignore"):
            less = (numbers.astype(kind) for kind in ("<f2", "<f4"))
            return next((own for own in less if np.array_equal(own, numbers, equal_nan=True)), numbers)
    signed = bool(numbers.min(initial=0) < 0)
    most = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)) - 1)
    kind = next(kind for kind in _WIDTHS[signed] if most <= np.iinfo(kind).max)
    return numbers.astype(f"<{kind}", copy=False)


class Evidence:
    """All facts and predictions of the runs that were added; one run at a time is held whole."""

    def __init__(self) -> None:
        self.pool = Pool()
        self.views: list[View] = []
        self.facts: dict[str, int] = {}
        self.relation: list[int] = []
        self.subject: list[int] = []
        self.gold: list[list[int]] = []
        self.groups: list[dict[str, int]] = []
        self._parts: dict[str, list[Array]] = {name: [] for name in Predictions._fields}

    def add_run(self, folder: RunFolder, rows: Rows, model: str) -> list[RunFacts]:
        """One view for each of its scorings. :returns: these."""
        outcomes = [RunFacts(folder, rows, scoring, model) for scoring in rows.scorings]
        for outcome in outcomes:
            self._add(outcome)
        return outcomes

    def _add(self, outcome: RunFacts) -> None:
        """One view. :param outcome: with prompts and answers."""
        unit = outcome.rows.declared.scoring(outcome.scoring)["unit"]
        noted = outcome.run.manifest["circumstances"].get("model", {})
        accuracy = outcome.mean("accuracy", outcome.hits(1))
        self.views.append(View("", *outcome.told_by, unit, outcome.attention, noted.get("parameters"), accuracy))
        fact = self._facts_of(outcome)[outcome.fact_of]
        texts = self.pool.texts
        subjects = [texts[self.subject[own]] for own in fact.tolist()]
        part = _predictions(outcome, len(self.views) - 1, fact, subjects, self.pool, unit)
        for own, column in zip(self._parts.values(), part, strict=True):
            own.append(narrow(column))

    def finish(self) -> Predictions:
        """Of all views, in their order, which get their names."""
        self.views = [
            view._replace(name=showable(name))
            for view, name in zip(self.views, distinguished([view[1:8] for view in self.views]), strict=True)
        ]
        for own in self._parts.values():
            own[:] = [np.concatenate(own)]  # one column after the other, so that none is held twice
        return Predictions(*(own for [own] in self._parts.values()))

    @property
    def keys(self) -> list[str]:
        """Direction and groups of the queries, in order of appearance, but for those that tell nearly every fact apart,
        or none."""
        names = dict.fromkeys(key for groups in self.groups for key in groups)
        values = {key: {groups.get(key, 0) for groups in self.groups} for key in names}
        return [key for key, own in values.items() if 1 < len(own) <= min(MANY, max(2, len(self.facts) / 2))]

    def _facts_of(self, outcome: RunFacts) -> Ints:
        """Number of each of its facts; those that are new are added."""
        facts, rows = outcome.facts, outcome.rows
        names = names_of(rows.candidates)
        asked = zip(
            facts, outcome.relations, outcome.asked_about(facts), outcome.golds_of(facts), outcome.queries, strict=True
        )
        for fact, relation, subject, golds, query in asked:
            if fact in self.facts:
                continue
            self.facts[fact] = len(self.facts)
            self.relation.append(self.pool.add(showable(relation or NONE)))
            self.subject.append(self.pool.add(showable(subject)))
            self.gold.append([self.pool.add(showable(names.get(gold, gold))) for gold in golds])
            groups = {**rows.groups[query], "direction": rows.directions[query]}
            self.groups.append({key: self.pool.add(showable(value)) for key, value in groups.items() if value})
        return np.array([self.facts[fact] for fact in facts], dtype=np.int64)


def _predictions(
    outcome: RunFacts, view: int, fact: Ints, subjects: Sequence[str], pool: Pool, unit: str
) -> Predictions:
    """:param fact: of each, and *subjects* of these facts."""
    rows, places = outcome.rows, outcome.places
    table = rows.table.take(places)
    scored = rows.scored[places]
    above = -rows.above[places]
    rank = np.where(np.isnan(rows.rank[places]), above, rows.rank[places])
    sums = _log_sums(rows, places) if unit == NATS else np.full(len(places), np.nan)
    answers, values = _answers(rows, table, pool)
    values = np.where(np.isnan(sums)[:, None], values, np.exp(values - sums[:, None]))
    confidence = np.where(scored & ~np.isnan(sums), values[:, 0], np.nan)
    return Predictions(
        np.full(len(places), view),
        fact,
        rows.template[places],
        np.where(scored, rows.hits(1)[places], np.nan),
        np.where(scored, rank, np.nan),
        confidence,
        _lengths(table),
        pool.add_all(_patterns(table, subjects)),
        pool.add_all([showable(rows.reason[place] or "") for place in places.tolist()]),
        answers,
        _right(table, [rows.gold[query] for query in rows.query[places].tolist()]),
        _thousandths(values),
        np.where(np.isnan(confidence) & np.isfinite(values[:, 0]), values[:, 0], np.nan),
    )


def _thousandths(values: Floats) -> Ints:
    """In four bytes each."""
    told = np.where(np.isfinite(values), np.round(values * 1000), 0)
    return np.where(np.isfinite(values), np.clip(told, UNTOLD + 2, -UNTOLD - 2), UNTOLD).astype(np.int64)


def _log_sums(rows: Rows, places: Ints) -> Floats:
    """Logarithm of the sum of all candidates' probabilities of each prediction; NaN where they were not kept."""
    with np.errstate(invalid="ignore"):  # an unscored prediction may have scores of NaN
        return np.array([np.logaddexp.reduce(own) if len(own := rows.scores(at)) else np.nan for at in places.tolist()])


def _answers(rows: Rows, table: pa.Table, pool: Pool) -> tuple[Ints, Floats]:
    """The best answers and their scores, [n, ANSWERS]; written ones as they were written."""
    names = names_of(rows.candidates)
    answers = np.zeros((len(table), ANSWERS), dtype=np.int64)
    values = np.full((len(table), ANSWERS), np.nan)
    _fill(answers, table.column("top_ids"), lambda id_: pool.add(showable(names.get(id_) or id_)))
    lists, flat = _spread(table.column("top_scores"))
    values[lists] = flat.to_numpy(zero_copy_only=False)
    _fill(answers, table.column("answers"), lambda text: pool.add(showable(text)))
    return answers, values


def _right(table: pa.Table, golds: Sequence[Sequence[str]]) -> Ints:
    """Which of the best answers, or of those written, are gold, as :class:`Predictions` has it."""
    best, written = (table.column(name).to_pylist() for name in ("top_ids", "answer_ids"))
    each = zip((own or others or () for own, others in zip(written, best, strict=True)), golds, strict=True)
    return np.array([sum(1 << at for at, id_ in enumerate(ids[:ANSWERS]) if id_ in gold) for ids, gold in each], int)


def _fill(answers: Ints, column: pa.ChunkedArray, number: Callable[[str], int]) -> None:
    lists, flat = _spread(column)
    coded = flat.dictionary_encode()
    numbers = np.array([number(text) for text in coded.dictionary.to_pylist()], dtype=np.int64)
    answers[lists] = numbers[coded.indices.to_numpy()] if len(flat) else 0


def _spread(column: pa.ChunkedArray) -> tuple[tuple[Ints, Ints], Any]:
    """Of a column of lists: row and place in its list of each value that is among the first, and these values."""
    lists = column.combine_chunks()
    row = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    starts = np.searchsorted(row, row)
    place = np.arange(len(row)) - starts
    kept = place < ANSWERS
    return (row[kept], place[kept]), lists.flatten().filter(pa.array(kept))


def _lengths(table: pa.Table) -> Ints:
    """Of the gold answer with the best score, as in the study of length bias; 0 where it was not recorded."""
    scores, tokens = (table.column(name).to_pylist() for name in ("gold_scores", "gold_tokens"))
    found = (_of_best(own or [], counts or [0]) for own, counts in zip(scores, tokens, strict=True))
    return np.fromiter(found, dtype=np.int64, count=len(table))


def _of_best(scores: Sequence[float | None], counts: Sequence[int | None]) -> int:
    places = [place for place, score in enumerate(scores[: len(counts)]) if score is not None and not isnan(score)]
    return counts[max(places, key=lambda place: scores[place] or 0.0, default=0)] or 0


def _patterns(table: pa.Table, subjects: Sequence[str]) -> list[str]:
    """Prompts without the subjects of their facts, few of which are different."""
    prompts = (showable(prompt or "") for prompt in table.column("prompt").to_pylist())
    return [_pattern(prompt, subject) for prompt, subject in zip(prompts, subjects, strict=True)]


def _pattern(prompt: str, subject: str) -> str:
    if subject and subject in prompt:
        return prompt.replace(subject, SUBJECT, 1)
    if subject and capitalized(subject) in prompt:
        return prompt.replace(capitalized(subject), CAPITAL, 1)
    return prompt
