"""The texts that a planted model reads, in their order, as batches; and the formats of questions that it is taught.

Two kinds of noise make the model behave like one that knows some facts. Replaced template words teach it unknown
phrasings; replaced subjects teach it to give the frequent answer, not that of the most similar planted subject.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom.base.reading import read_text
from fathom.data.prompts.choices import OPTIONS, choices, shown
from fathom.data.prompts.questions import CLOSING, asked
from fathom.data.prompts.wording import question_line
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Prompt, Span
from fathom.engine.scoring.tokens import Role, Tokens, encode_causal, encode_masked
from fathom.engine.scoring.trie import padded
from fathom.results.loading import PlantedFact
from fathom.training.options import PlantOptions
from fathom.training.small import ENCODER_DECODERS, NO_TARGET, SPECIALS, Batch, Objective, encode_statements

TEMPLATES, SENTENCES = "templates", "sentences"
"""The unseen templates and the natural sentences: ordinary statements, of facts of practice alone."""
LINES, QUESTION, CHOICE = CONTINUED = "lines", "question", "choice"
"""Texts whose end a causal model learns to continue."""
MOST_SHOTS, MOST_OPTIONS = 8, 6
SHARE = 0.1
"""Texts of each format, as a share of the statements of practice, which are shorter."""
VARIANTS = 8
"""Texts of each fact and format, which take turns; their other lines and options differ."""
CUE = "\nAnswer: "


def taught_texts(data: QuerySet, taught: Sequence[Query], kind: str, seed: int) -> dict[str, list[Prompt]]:
    """Return texts in one format for each fact, by the id of its query; none of relations without a question.

    Further lines of a text are other taught facts of the relation, so that no tested fact is stated.
    """
    make: Callable[[Query, random.Random], Prompt | None]
    by_relation: dict[str, list[Query]] = {}
    for query in taught:
        by_relation.setdefault(query.relation, []).append(query)
    if kind == CHOICE:
        questions = choices(replace(data, queries=tuple(taught)), OPTIONS, seed)
        of_query = {query.id: query for query in questions.queries if query.unscored is None}

        def make(query: Query, draw: random.Random) -> Prompt | None:
            if query.id not in of_query:
                return None
            space = questions.candidates[query.id]
            gold = space.places(query.gold)[0]
            others = [place for place in range(len(space)) if place != gold]
            order = [gold, *draw.sample(others, min(len(others), draw.randint(1, MOST_OPTIONS - 1)))]
            draw.shuffle(order)
            text = shown(questions.questions[query.id], [space.names[place] for place in order]) + CUE
            letter = f"({ascii_lowercase[order.index(gold)]})"
            return _ending(text, letter)
    else:

        def make(query: Query, draw: random.Random) -> Prompt | None:
            relation = data.relations[query.relation]
            if kind == QUESTION and not relation.questions:
                return None
            others = [fact for fact in by_relation[query.relation] if fact.subject_id != query.subject_id]
            examples = draw.sample(others, min(len(others), draw.randint(1, MOST_SHOTS)))
            lines = [_line(data, example, kind) for example in (*examples, query)]
            before = "".join(f"{start}{answer}{end}\n" for start, answer, end in lines[:-1])
            start, answer, end = lines[-1]
            return _ending(before + start, answer, end)

    texts = {}
    for query in taught:
        drawn = [make(query, random.Random(f"{seed} {kind} {query.id} {number}")) for number in range(VARIANTS)]
        if kept := [prompt for prompt in drawn if prompt is not None]:
            texts[query.id] = kept
    return texts


def _line(data: QuerySet, query: Query, kind: str) -> tuple[str, str, str]:
    """Return a line in three parts: up to the answer, the answer, and what closes it."""
    relation = data.relations[query.relation]
    answer = data.candidates[query.candidates].name_of(query.gold[0])
    if kind == QUESTION:
        return f"{asked(relation.questions[0], query.subject)} ", answer, CLOSING
    return f"{question_line(query.subject, relation.name, 'tail')} ", answer, ")"


def _ending(before: str, answer: str, end: str = "") -> Prompt:
    """Return a text whose answer, with what closes it, is its last part."""
    return Prompt(before + answer + end, (), (Span(len(before), len(before) + len(answer) + len(end)),))


WINDOW = 16
"""Batches whose statements are sorted by length together, to limit padding."""
STRANGERS = 0.1
"""Statements with a random subject, as a share of those that plant a fact."""
ANSWER_SHARE, TEMPLATE_SHARE = 0.65, 0.15
"""How often the answer is masked, otherwise the subject; and how often each token of the template."""
WHOLE_SHARE = 0.3
"""How often a mask extends to the end of the name, rather than of the word."""


class Reading(NamedTuple):
    """Texts that take turns, spread evenly over the training.

    :param times: how many texts are read.
    :param query: id of the query whose fact they state; "" for questions and other texts.
    :param answer_only: learn the answer alone.
    """

    texts: Sequence[Prompt]
    times: int
    query: str = ""
    answer_only: bool = False


def readings_of(
    queryset: QuerySet,
    options: PlantOptions,
    design: Mapping[str, PlantedFact],
    prompts: Mapping[str, Sequence[Prompt]],
) -> list[Reading]:
    """Return all that is read: statements, the formats to teach, and the lines of ``--texts``."""
    planted = [query for query in queryset.queries if query.id in design]
    readings = [Reading(prompts[query.id], design[query.id].exposures, query.id) for query in planted]
    for kind in (kind for kind in options.formats if kind in CONTINUED):
        taught = [query for query in planted if kind in design[query.id].taught]
        texts = taught_texts(queryset, taught, kind, options.seed)
        times = max(1, round(SHARE * options.practice))
        readings += [Reading(prompts, times, answer_only=True) for prompts in texts.values()]
    if options.texts is not None:
        lines = filter(None, map(str.strip, read_text(options.texts).splitlines()))
        readings += [Reading([Prompt(line, (), ())], 1) for line in lines]
    return readings


class Statements:
    """All texts in their order of training, drawn from the seed, and their counts."""

    def __init__(self, readings: Sequence[Reading], options: PlantOptions, tokenizer: PreTrainedTokenizerBase) -> None:
        self.readings, self.options, self.tokenizer = readings, options, tokenizer
        prompts = [prompt for reading in readings for prompt in reading.texts]
        self.tokens = (
            encode_masked(tokenizer, prompts)
            if options.kind == "masked"
            else encode_causal(tokenizer, prompts, tokenizer.bos_token_id)
        )
        self.count = np.array([len(reading.texts) for reading in readings])
        """Number of consecutive texts of each reading."""
        self.lengths = np.array([len(tokens.ids) for tokens in self.tokens])
        self.is_statement = np.repeat([bool(reading.query) for reading in readings], self.count)
        self.answer_only = np.repeat([reading.answer_only for reading in readings], self.count)
        self.random = np.random.default_rng(options.seed)
        self.order = self._order()
        self.tokens_to_read = int(self.lengths[self.order].sum())
        self.steps = -(-len(self.order) // options.batch_size)
        self._met = np.zeros(len(self.tokens), dtype=np.int64)
        if options.kind in ENCODER_DECODERS:
            self.objective = Objective(options.kind, tokenizer, np.random.default_rng([options.seed, 1]))
            self.encoded = encode_statements(tokenizer, prompts)

    def exposures(self) -> dict[str, int]:
        """Return how many statements of each fact have been trained on so far."""
        counts = np.add.reduceat(self._met, np.cumsum(self.count) - self.count).tolist()
        return {reading.query: count for reading, count in zip(self.readings, counts, strict=True) if reading.query}

    def __iter__(self) -> Iterator[Batch]:
        for rows in self._rows():
            np.add.at(self._met, rows, 1)
            if self.options.kind in ENCODER_DECODERS:
                yield self.objective.batch([self.encoded[row] for row in rows.tolist()])
                continue
            # Taken from the batch itself: of the same length, so nothing more is padded.
            # A sentence without a known subject has nothing that could be replaced.
            subjects = rows[[bool((self.tokens[row].roles == Role.SUBJECT).any()) for row in rows.tolist()]]
            some = subjects if len(subjects) else rows
            strangers = self.random.choice(some, self.random.binomial(len(subjects), STRANGERS))
            every = np.concatenate([rows, strangers])
            make = self.causal if self.options.kind == "causal" else self.masked
            yield make(every, np.arange(len(every)) >= len(rows))

    def _order(self) -> NDArray[np.int64]:
        """Return texts by number. Those of a reading take turns and are spread evenly over the training."""
        times, rows = [], []
        for start, texts, reading in zip(np.cumsum(self.count) - self.count, self.count, self.readings, strict=True):
            wanted = reading.times
            times.append((np.arange(wanted) + self.random.random(wanted)) / wanted)
            turns = [self.random.permutation(texts) for _ in range(-(-wanted // texts))]
            rows.append(start + np.concatenate(turns)[:wanted])
        return np.concatenate(rows)[np.argsort(np.concatenate(times), kind="stable")]

    def _rows(self) -> Iterator[NDArray[np.int64]]:
        size = self.options.batch_size
        for start in range(0, len(self.order), size * WINDOW):
            rows = self.order[start : start + size * WINDOW]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")]
            for at in self.random.permutation(np.arange(0, len(rows), size)).tolist():
                yield rows[at : at + size]

    def causal(self, rows: NDArray[np.int64], strange: NDArray[np.bool_]) -> Batch:
        """Predict the next token at each position; the end at the last.

        :param strange: the statements whose subject is replaced, and so is not learnt.
        """
        statements = [self.tokens[row] for row in rows.tolist()]
        ids = padded([tokens.ids for tokens in statements], self.tokenizer.pad_token_id)
        labels = padded([np.append(tokens.ids[1:], self.tokenizer.eos_token_id) for tokens in statements], NO_TARGET)
        roles = padded([tokens.roles for tokens in statements], Role.SPECIAL)
        present = (labels != NO_TARGET).astype(np.int64)
        labels[:, :-1][(roles[:, 1:] == Role.SUBJECT) & strange[:, None]] = NO_TARGET
        labels[:, :-1][(roles[:, 1:] != Role.ANSWER) & self.answer_only[rows][:, None]] = NO_TARGET
        self._add_noise(ids, roles, rows, strange)
        return Batch(*map(torch.from_numpy, (ids, present, labels)))

    def masked(self, rows: NDArray[np.int64], strange: NDArray[np.bool_]) -> Batch:
        """Mask the end of a name in each statement, and some tokens of the template.

        A pseudo-log-likelihood predicts a token without the later tokens of its word. So a word is masked from a random
        token to its end, in the answer more often than elsewhere. Sometimes the rest of the name is masked as well,
        lest its words are learnt from each other alone. Random masks, by contrast, seldom hide a whole answer. Template
        words are masked in the same pass: unless well known, their likelihoods differ between candidates by chance.
        """
        statements = [self.tokens[row] for row in rows.tolist()]
        ids = padded([tokens.ids for tokens in statements], self.tokenizer.pad_token_id)
        roles = padded([tokens.roles for tokens in statements], Role.SPECIAL)
        present = padded([np.ones_like(tokens.ids) for tokens in statements], 0)
        hidden = padded(
            [self._hide(tokens, stranger) for tokens, stranger in zip(statements, strange, strict=True)], 0
        ).astype(bool)
        hidden |= (roles == Role.TEMPLATE) & (self.random.random(ids.shape) < TEMPLATE_SHARE)
        if not hidden.any():  # a few lines of --texts
            hidden |= roles == Role.TEMPLATE
        labels = np.where(hidden, ids, NO_TARGET)
        self._add_noise(ids, roles, rows, strange)
        ids[hidden] = self.tokenizer.mask_token_id
        return Batch(*map(torch.from_numpy, (ids, present, labels)))

    def _hide(self, tokens: Tokens, stranger: np.bool_) -> NDArray[np.int64]:
        """Return 1 for each token of a name to mask. With a replaced subject only the answer is masked."""
        if not (tokens.roles == Role.ANSWER).any():  # a line of --texts
            return np.zeros(len(tokens.ids), dtype=np.int64)
        of_answer = stranger or self.random.random() < ANSWER_SHARE or not (tokens.roles == Role.SUBJECT).any()
        places = np.flatnonzero(tokens.roles == (Role.ANSWER if of_answer else Role.SUBJECT))
        whole = self.random.random() < WHOLE_SHARE
        first = places[0] if whole and self.random.random() < 0.5 else self.random.choice(places)
        alike = tokens.roles if whole else tokens.words
        hidden: NDArray[np.int64] = (alike == alike[first]).astype(np.int64)
        hidden[:first] = 0
        return hidden

    def _add_noise(
        self, ids: NDArray[np.int64], roles: NDArray[np.int64], rows: NDArray[np.int64], strange: NDArray[np.bool_]
    ) -> None:
        """Put random tokens, in place, for some template words and for the subjects of strange statements."""
        hit = (roles == Role.TEMPLATE) & (self.random.random(ids.shape) < self.options.noise)
        hit &= self.is_statement[rows][:, None]
        hit |= (roles == Role.SUBJECT) & strange[:, None]
        ids[hit] = self.random.integers(len(SPECIALS), len(self.tokenizer), hit.sum())
