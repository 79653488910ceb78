"""Facts and predictions of runs, in columns small enough for a browser.

A *view* is one run in one scoring. A fact has its ``fact_id``, or its query's id. Each prediction is a row; texts are
numbers into one pool.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fathom.data.templates import capitalized
from fathom.results.estimates import Estimate
from fathom.results.facts import RunFacts, names_of
from fathom.results.loading import distinguished
from fathom.results.rows import NATS, NONE, Floats, Ints, Rows, best_gold
from fathom.store.folder import RunFolder
from fathom.studies.learning import checkpoint_of

Array = npt.NDArray[Any]
MISSING = -(2**31)
"""In thousandths: no number."""
ANSWERS = 5
"""Number of best answers shown for each prediction."""
SUBJECT, CAPITAL = "\ufdd0", "\ufdd1"
"""In a prompt's pattern: the subject, and the capitalised subject. No text may have these characters."""
_NOT_SHOWN = re.compile("[\0-\x08\x0b-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_INHERITED = re.compile(
    "__proto__|__(define|lookup)[GS]etter__|constructor|to(Locale)?String|valueOf|hasOwnProperty|isPrototypeOf"
    "|propertyIsEnumerable"
)
"""Properties of every JavaScript object, which Vega takes for its own entries."""
TOKENS = "token_log_probs"
STATEMENTS = 2
"""Statements of each prediction: with the best gold answer, and with the first answer if it is another."""
NOT_SCORED = 65535
"""In hundredths: a token that does not count. The script has the same number."""
MANY = 200
"""A group with more values, such as a document, distinguishes queries and is no slice."""


def showable(text: str) -> str:
    """Replace control characters and half characters, and mark names that JavaScript objects inherit."""
    return without_controls(text) + "\u2060" * bool(_INHERITED.fullmatch(text))


def without_controls(text: str) -> str:
    """Replace what a page cannot hold by "\ufffd"."""
    return _NOT_SHOWN.sub("\ufffd", text)


class View(NamedTuple):
    """One run in one scoring.

    :param name: label in tables; "" until all views are known.
    :param attention: causal or bidirectional; "" for neither.
    :param checkpoint: training and step; None for a model that is no checkpoint.
    """

    name: str
    probe: str
    scoring: str
    data: str
    path: str
    attention: str
    parameters: int | None
    accuracy: Estimate
    checkpoint: tuple[str, int] | None


class TextPool(dict[str, int]):
    """The number of each text; a new text gets the next one."""

    def __missing__(self, text: str) -> int:
        return self.setdefault(text, len(self))


class PredictionColumns(NamedTuple):
    """Columns of one view, or of all views end to end, shape (n) each, in as few bytes as hold the values.

    :param times: number of predictions of the fact in the view; 0 if one of them is unscored.
    :param hit: credit, or expected Hits@1; NaN where unknown or unscored.
    :param rank: realistic; −k where it is only known to be beyond k; NaN where there is none.
    :param ties: pessimistic − optimistic rank.
    :param confidence: probability of the best answer among all candidates; NaN where unknown.
    :param length: tokens of the best gold answer; 0 where not recorded.
    :param prompt: pattern in the pool, with the fact's subject as :data:`SUBJECT` or :data:`CAPITAL`.
    :param reason: why it is unscored, in the pool; 0 if it is scored.
    :param answers: the best ones in the pool, 0 after their end, shape (n, ANSWERS).
    :param right: sum of 1 if the best answer is gold, 2 if the second is, 4 if the third is, …
    :param values: of the answers, in thousandths: probabilities if the unit is nats and all scores were kept, else
        scores; :data:`MISSING` where there is none.
    :param gold: the best gold answer in the pool, 0 if it is among *answers* or has no score.
    :param gold_value: its value.
    """

    view: Array
    fact: Array
    times: Array
    template: Array
    hit: Array
    rank: Array
    ties: Array
    confidence: Array
    length: Array
    prompt: Array
    reason: Array
    answers: Array
    right: Array
    values: Array
    gold: Array
    gold_value: Array

    def places_of_views(self) -> list[slice]:
        ends = [*np.flatnonzero(np.diff(self.view)) + 1, len(self.view)]
        return [slice(begin, end) for begin, end in pairwise([0, *ends]) if end > begin]

    def only(self, places: slice) -> PredictionColumns:
        return PredictionColumns(*(column[places] for column in self))

    def each_view(self) -> Iterator[PredictionColumns]:
        return map(self.only, self.places_of_views())


def narrow(numbers: Array) -> Array:
    """Return the same numbers in as few bytes as hold them exactly."""
    if numbers.dtype.kind == "f":
        with np.errstate(over="ignore"):
            smaller = (numbers.astype(kind) for kind in ("<f2", "<f4"))
            return next((column for column in smaller if np.array_equal(column, numbers, equal_nan=True)), numbers)
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    kind = np.min_scalar_type(min(low, -high - 1) if low < 0 else high)
    return numbers.astype(kind.newbyteorder("<"), copy=False)


class KeptTokens(NamedTuple):
    """Tokens of statements, those of each prediction next to each other.

    :param counts: of each statement, 0 if there is none, shape (predictions, STATEMENTS).
    :param texts: in the pool, shape (tokens).
    :param values: log-probabilities times −100, or :data:`NOT_SCORED`, shape (tokens).
    """

    counts: Array
    texts: Array
    values: Array

    @classmethod
    def of_table(cls, table: pa.Table, places: Ints, pool: TextPool) -> KeptTokens:
        """Read the tokens of the predictions at *places*."""
        counts = np.zeros((len(places), STATEMENTS), dtype=np.uint16)
        kept = table.column(TOKENS).take(places) if TOKENS in table.column_names else None
        if kept is None or kept.null_count == len(kept):
            return cls(counts, np.empty(0, np.uint32), np.empty(0, np.uint16))
        lists = kept.combine_chunks()
        row, statements = pc.list_parent_indices(lists).to_numpy(), lists.flatten()
        place = np.arange(len(row)) - np.searchsorted(row, row)
        tokens, values = (statements.field(name) for name in ("tokens", "log_probs"))
        counts[row, place] = pc.list_value_length(tokens).to_numpy(zero_copy_only=False)
        coded = tokens.flatten().dictionary_encode()
        numbers = np.array([pool[showable(text)] for text in coded.dictionary.to_pylist()], dtype=np.uint32)
        log_probs = values.flatten().to_numpy(zero_copy_only=False)
        hundredths = np.clip(np.round(-100 * np.nan_to_num(log_probs)), 0, NOT_SCORED - 1)
        return cls(
            counts,
            numbers[coded.indices.to_numpy()],
            np.where(np.isnan(log_probs), NOT_SCORED, hundredths).astype(np.uint16),
        )

    @classmethod
    def joined(cls, parts: Sequence[KeptTokens]) -> KeptTokens:
        """Return the tokens of all views end to end."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Evidence:
    """All facts and predictions of the added runs. Only one run at a time is in memory as a whole."""

    def __init__(self) -> None:
        self.pool = TextPool({"": 0})
        self.views: list[View] = []
        self.facts: dict[str, int] = {}
        self.relation: list[int] = []
        self.subject: list[int] = []
        self.gold: list[list[int]] = []
        self.groups: list[dict[str, int]] = []
        self._hits: list[tuple[Array, Array]] = []
        self._identities: list[Mapping[str, str]] = []
        self._parts: list[PredictionColumns] = []
        self._tokens: list[KeptTokens] = []

    def add_run(self, folder: RunFolder, rows: Rows, model: str) -> list[RunFacts]:
        """Add a view for each scoring, and return its facts."""
        outcomes = [RunFacts(folder, rows, scoring, model) for scoring in rows.scorings]
        for outcome in outcomes:
            self._add(outcome)
        return outcomes

    def _add(self, outcome: RunFacts) -> None:
        """Add a view. :param outcome: with prompts and answers."""
        hits = outcome.hits(1)
        about = outcome.probe, outcome.scoring, outcome.data, outcome.path, outcome.attention, outcome.parameters
        facts = self._numbers_of(outcome)
        columns = _predictions(outcome, len(self.views), facts, self)
        self.views.append(View("", *about, outcome.mean("accuracy", hits), checkpoint_of(outcome.run)))
        self._identities.append(outcome.distinguishing)
        self._hits.append((narrow(facts), narrow(hits)))
        self._parts.append(PredictionColumns(*map(narrow, columns)))
        self._tokens.append(KeptTokens.of_table(outcome.rows.table, outcome.places, self.pool))

    def finish(self) -> PredictionColumns:
        """Name the views, and return their predictions end to end."""
        names = distinguished(self._identities)
        self.views = [view._replace(name=showable(name)) for view, name in zip(self.views, names, strict=True)]
        columns = [list(column) for column in zip(*self._parts, strict=True)]
        self._parts.clear()
        for column in columns:
            column[:] = [np.concatenate(column)]  # one column after the other, so that none is held twice
        whole = PredictionColumns(*(column for [column] in columns))
        self._parts.append(whole)
        return whole

    @property
    def tokens(self) -> KeptTokens:
        """Tokens that the runs kept, in the order of the predictions."""
        return KeptTokens.joined(self._tokens)

    @property
    def hits(self) -> Floats:
        """Hits@1 of each fact in each view, shape (views, facts); NaN where the fact is unscored or missing."""
        hits = np.full((len(self.views), len(self.facts)), np.nan)
        for row, (facts, values) in zip(hits, self._hits, strict=True):
            row[facts] = values
        return hits

    @property
    def keys(self) -> list[str]:
        """Direction and groups of the queries, except those with one value or with nearly as many as facts."""
        names = dict.fromkeys(key for groups in self.groups for key in groups)
        values = {key: {groups.get(key, 0) for groups in self.groups} for key in names}
        return [key for key, distinct in values.items() if 1 < len(distinct) <= min(MANY, max(2, len(self.facts) / 2))]

    def _numbers_of(self, outcome: RunFacts) -> Ints:
        """Return the number of each of its facts, after adding new ones."""
        facts, rows = outcome.facts, outcome.rows
        names = names_of(rows.candidates)
        columns = (
            outcome.shown_relations(facts),
            outcome.subject_names(facts),
            outcome.gold_ids_of(facts),
            outcome.queries,
        )
        for fact, relation, subject, golds, query in zip(facts, *columns, strict=True):
            if fact in self.facts:
                continue
            self.facts[fact] = len(self.facts)
            self.relation.append(self.pool[showable(relation or NONE)])
            self.subject.append(self.pool[showable(subject)])
            self.gold.append([self.pool[showable(names.get(gold, gold))] for gold in golds])
            groups = {**rows.groups[query], "direction": rows.directions[query]}
            self.groups.append({key: self.pool[showable(value)] for key, value in groups.items() if value})
        return np.array([self.facts[fact] for fact in facts], dtype=np.int64)


def _predictions(outcome: RunFacts, view: int, facts: Ints, evidence: Evidence) -> PredictionColumns:
    """:param facts: number of each fact of the outcome."""
    rows, places, pool = outcome.rows, outcome.places, evidence.pool
    table = rows.table.take(places)
    scored = rows.scored[places]
    rank = np.where(np.isnan(rows.rank[places]), -rows.above[places], rows.rank[places])
    is_nats = rows.declared.scoring(outcome.scoring)["unit"] == NATS
    sums = _log_sums(rows, places) if is_nats else np.full(len(places), np.nan)
    answers, values = _answers(rows, table, pool)
    values = np.where(np.isnan(sums)[:, None], values, np.exp(values - sums[:, None]))
    confidence = np.where(scored & ~np.isnan(sums), values[:, 0], np.nan)
    times = np.where(np.isnan(outcome.hits(1)), 0, np.bincount(outcome.fact_of, minlength=len(facts)))
    golds = [rows.gold[query] for query in rows.query[places].tolist()]
    scores, lengths = (table.column(name).to_pylist() for name in ("gold_scores", "gold_tokens"))
    best, right, names = list(map(best_gold, scores)), _right(table, golds), names_of(rows.candidates)
    listed = [shown or not of_golds for shown, of_golds in zip(right.tolist(), scores, strict=True)]
    best_ids = ["" if is_listed else gold[at] for is_listed, gold, at in zip(listed, golds, best, strict=True)]
    of_best = [None if is_listed else each[at] for is_listed, each, at in zip(listed, scores, best, strict=True)]
    best_scores = np.array(of_best, dtype=float)
    texts = list(pool)
    subjects = [texts[evidence.subject[fact]] for fact in facts[outcome.fact_of].tolist()]
    prompts = [showable(prompt or "") for prompt in table.column("prompt").to_pylist()]

    def numbers(texts: Iterable[str]) -> Ints:
        return np.array([pool[text] for text in texts], dtype=np.int64)

    return PredictionColumns(
        np.full(len(places), view),
        facts[outcome.fact_of],
        times[outcome.fact_of],
        rows.template[places],
        np.where(scored, rows.hits(1)[places], np.nan),
        np.where(scored, rank, np.nan),
        np.nan_to_num(rows.pessimistic[places] - rows.optimistic[places]).astype(np.int64),
        confidence,
        np.array([tokens[at] or 0 if tokens else 0 for at, tokens in zip(best, lengths, strict=True)], np.int64),
        numbers(map(_pattern, prompts, subjects)),
        numbers(showable(rows.reason[place] or "") for place in places.tolist()),
        answers,
        right,
        _thousandths(values),
        numbers(showable(names.get(id_, id_)) for id_ in best_ids),
        _thousandths(np.where(np.isnan(sums), best_scores, np.exp(best_scores - sums))),
    )


def _thousandths(values: Floats) -> Ints:
    """Return thousandths that fit in four bytes."""
    rounded = np.round(np.where(np.isfinite(values), values, 0) * 1000)
    return np.where(np.isfinite(values), np.clip(rounded, MISSING + 2, -MISSING - 2), MISSING).astype(np.int64)


def _log_sums(rows: Rows, places: Ints) -> Floats:
    """Return the log of the sum of all candidates' probabilities of each prediction; NaN if they were not kept."""
    with np.errstate(invalid="ignore"):  # an unscored prediction may have scores of NaN
        return np.array([np.logaddexp.reduce(row) if len(row := rows.scores(at)) else np.nan for at in places.tolist()])


def _answers(rows: Rows, table: pa.Table, pool: TextPool) -> tuple[Ints, Floats]:
    """Return the best, or the written, answers and their scores, shape (n, ANSWERS)."""
    names = names_of(rows.candidates)
    answers = np.zeros((len(table), ANSWERS), dtype=np.int64)
    values = np.full((len(table), ANSWERS), np.nan)
    _fill(answers, table.column("top_ids"), lambda id_: pool[showable(names.get(id_) or id_)])
    lists, flat = _spread(table.column("top_scores"))
    values[lists] = flat.to_numpy(zero_copy_only=False)
    _fill(answers, table.column("answers"), lambda text: pool[showable(text)])
    return answers, values


def _right(table: pa.Table, golds: Sequence[Sequence[str]]) -> Ints:
    """Return which of the best, or of the written, answers are gold, as :class:`PredictionColumns` has it."""
    best, written = (table.column(name).to_pylist() for name in ("top_ids", "answer_ids"))
    each = zip((answers or others or () for answers, others in zip(written, best, strict=True)), golds, strict=True)
    return np.array([sum(1 << at for at, id_ in enumerate(ids[:ANSWERS]) if id_ in gold) for ids, gold in each], int)


def _fill(answers: Ints, column: pa.ChunkedArray, number: Callable[[str], int]) -> None:
    lists, flat = _spread(column)
    coded = flat.dictionary_encode()
    numbers = np.array([number(text) for text in coded.dictionary.to_pylist()], dtype=np.int64)
    answers[lists] = numbers[coded.indices.to_numpy()] if len(flat) else 0


def _spread(column: pa.ChunkedArray) -> tuple[tuple[Ints, Ints], Any]:
    """Return row and place of the first values of each list, and these values."""
    lists = column.combine_chunks()
    row = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    place = np.arange(len(row)) - np.searchsorted(row, row)
    first = place < ANSWERS
    return (row[first], place[first]), lists.flatten().filter(pa.array(first))


def _pattern(prompt: str, subject: str) -> str:
    """Return the prompt without the subject; few patterns are different."""
    if subject and subject in prompt:
        return prompt.replace(subject, SUBJECT, 1)
    if subject and capitalized(subject) in prompt:
        return prompt.replace(capitalized(subject), CAPITAL, 1)
    return prompt


# --- counting


RANKS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Last rank of each class but the last, which is open."""
TENTHS = 10
LENGTHS = 8
"""Answers of so many tokens and more are one class."""
LONGEST = 60
"""Longest text of a template in a label, and of a setting."""


class Dimension(NamedTuple):
    """:param labels: of the classes, in order. :param codes: class of each prediction, −1 for none, shape (n)."""

    labels: Sequence[str]
    codes: Array


def dimensions(evidence: Evidence, predictions: PredictionColumns) -> Mapping[str, Dimension]:
    """Return the dimensions run, relation, template, rank, confidence and length."""
    texts = list(evidence.pool)
    named = sorted(set(evidence.relation), key=texts.__getitem__)
    place = {number: at for at, number in enumerate(named)}
    of_fact = narrow(np.array([place[number] for number in evidence.relation], dtype=np.int64))
    templates = np.unique(predictions.template).tolist()
    lengths = np.minimum(predictions.length, LENGTHS).astype(np.int8) - np.int8(1)  # 0 tokens are no class

    def coded(codes: Callable[[PredictionColumns], Array]) -> Array:
        """Code one view after the other: intermediate values take more memory than the result."""
        return np.concatenate([narrow(codes(view)) for view in predictions.each_view()])

    rank_labels = [str(high) if high - low == 1 else f"{low + 1}–{high}" for low, high in pairwise([0, *RANKS])]
    wordings = [_wording(number, predictions, texts) for number in templates]
    return {
        "run": Dimension([view.name for view in evidence.views], predictions.view),
        "relation": Dimension([texts[number] for number in named], of_fact[predictions.fact]),
        "template": Dimension(wordings, coded(lambda view: np.searchsorted(templates, view.template))),
        "rank": Dimension([*rank_labels, f">{RANKS[-1]}"], coded(lambda view: _rank_codes(view.rank))),
        "confidence": Dimension(
            [f"{at * 10}–{at * 10 + 10} %" for at in range(TENTHS)], coded(lambda view: _tenths(view.confidence))
        ),
        "length": Dimension([*map(str, range(1, LENGTHS)), f"{LENGTHS}+"], lengths),
    }


def _wording(template: int, predictions: PredictionColumns, texts: Sequence[str]) -> str:
    """Return the number of a template, with its text if all relations share it."""
    if template < 0:
        return NONE
    prompts = np.unique(predictions.prompt[predictions.template == template]).tolist()
    patterns = list(dict.fromkeys(pattern_text(texts[prompt]) for prompt in prompts))
    if len(patterns) > 1:
        return f"template {template}"
    return f"{template}: {patterns[0] if len(patterns[0]) <= LONGEST else f'{patterns[0][:LONGEST]}…'}"


def pattern_text(pattern: str) -> str:
    """Return the last line of a prompt's pattern, its subject written "[X]"."""
    return pattern.replace(SUBJECT, "[X]").replace(CAPITAL, "[X]").strip().rpartition("\n")[2]


def _rank_codes(rank: Floats) -> Ints:
    """A rank beyond k is in the class of k + 1."""
    least = np.where(rank < 0, 1 - rank, rank)
    return np.where(np.isnan(least), -1, np.searchsorted(np.array(RANKS, float), least, side="left"))


def _tenths(confidence: Floats) -> Ints:
    """Code as the calibration error does: (low, high], and 0 in the first."""
    place = np.maximum(np.searchsorted(np.arange(TENTHS + 1) / TENTHS, confidence, side="left") - 1, 0)
    return np.where(np.isnan(confidence), -1, np.minimum(place, TENTHS - 1))


def weights(predictions: PredictionColumns) -> Floats:
    """Return 1 / number of predictions of the fact in the view, so that it counts once; 0 if one is unscored."""
    return np.where(predictions.times > 0, 1 / np.maximum(predictions.times, 1), 0.0)


def weights_by_template(view: PredictionColumns) -> Floats:
    """Return the same among the predictions of one template. :param view: predictions of one view."""
    key = view.template.astype(np.int64) * (int(view.fact.max(initial=0)) + 1) + view.fact
    _, place, counts = np.unique(key, return_inverse=True, return_counts=True)
    return np.where(view.times > 0, (1 / counts)[place], 0.0)


class Kinds(NamedTuple):
    """Parts of the facts that a reader may choose, other than relations.

    :param labels: such as "cardinality: 1:1". :param of_facts: numbers of the parts that contain each fact.
    """

    labels: list[str]
    of_facts: list[list[int]]


def label_of(key: str, value: str) -> str:
    """Return "cardinality: 1:1", and of yes and no "planted" or "withheld"."""
    if value in ("True", "true"):
        return key
    return {"planted": "withheld"}.get(key, f"not {key}") if value in ("False", "false") else f"{key}: {value}"


def kinds_of(evidence: Evidence, predictions: PredictionColumns) -> Kinds:
    """Return the groups of the queries, and the facts that all runs scored, all or none has right, or some left out."""
    labels: dict[str, int] = {}
    of_facts: list[list[int]] = [[] for _ in evidence.facts]
    texts = list(evidence.pool)
    for key in evidence.keys:
        for fact, groups in enumerate(evidence.groups):
            values = filter(None, map(str.strip, texts[groups.get(key, 0)].split(";")))
            for value in dict.fromkeys(values) or (NONE,):
                of_facts[fact].append(labels.setdefault(label_of(key, value), len(labels)))
    hits = evidence.hits
    unscored = np.isin(np.arange(len(evidence.facts)), predictions.fact[predictions.reason > 0])
    for label, members in (
        ("scored by all runs", ~np.isnan(hits).any(axis=0)),
        ("right by all runs", (hits == 1).all(axis=0)),
        ("right by no run", (hits == 0).all(axis=0)),
        ("a prediction unscored", unscored),
    ):
        for fact in np.flatnonzero(members).tolist():
            of_facts[fact].append(labels.setdefault(label, len(labels)))
    return Kinds(list(labels), of_facts)
