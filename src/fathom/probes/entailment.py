"""The entailment probe: premises and hypotheses about pseudowords (OntoProbe, Wu et al. 2023, section 3.2).

Pseudowords and learnt tokens are rows of one matrix: first the learnt tokens of each rule, premises and fold, then
the pairs of each rule. If conjunctions are learnt, all learnt tokens of a text are trained further.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from fathom.base.errors import BadInput
from fathom.base.options import FOLDS
from fathom.base.progress import Progress
from fathom.base.reading import read_bytes, stands, tensors_file
from fathom.data.folds import FOLD, taught
from fathom.data.prompts.entailment import CONJUNCTION, RuleWording, TokenStart, W, X, Y, Z, sources
from fathom.data.prompts.ontology import RULES
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import Prompt, Template, capitalized
from fathom.engine.models.base import Attention, Model
from fathom.engine.scoring.pseudowords import (
    PseudowordEncoder,
    PseudowordText,
    count_scored,
    pseudoword_scores,
    pseudowords,
)
from fathom.engine.scoring.rows import Columns, PromptedQuery, result_columns, score_columns
from fathom.engine.scoring.search import SearchPlan, SearchQuestion, search, token_counts
from fathom.engine.scoring.slots import LEARNT, CandidateTokens, Slot, encode_slots, slot_scores
from fathom.engine.scoring.statements import Reduction, Score, StatementScoring
from fathom.engine.scoring.tokens import Bos, resolve_bos
from fathom.engine.scoring.trie import AnswerTrie
from fathom.probes.base import Answered, Facts, Probe, Shard, ShardedProbe, too_long
from fathom.probes.options import EntailmentOptions, OntologyT, SlotOptions, complete_folds
from fathom.probes.slot import NO_ESTIMATE, SlotProbe
from fathom.store.files import whole_file
from fathom.store.predictions import Scoring
from fathom.training.soft import AGAIN, GoldSlot, SoftPlan, learn, learnt_file, load_learnt, random_start, save_learnt

TRAIN, DEV = "train", "dev"
ALTERNATIVE = "let it choose among options: fathom build choices, then fathom probe choice"
"""What to do with a model that is neither masked nor causal."""
SHARD_STATEMENTS = 8192
SHARD_QUERIES = 256
SEARCHED_FROM = 200
"""Candidates from which a text is searched: SmolLM2 takes as long in both ways for 82, by search a fourth for 783."""
SHARED_FROM = 8
"""Queries of one text from which it is scored once: a search for each runs a fourth of the tokens or more."""
TOP = 10
PSEUDOWORDS = "pseudowords.safetensors"
"""Artifact: the pairs of each rule, ``<x>`` and ``<y>`` of the first, of the second, …"""


class _Block(NamedTuple):
    """Texts that share learnt tokens.

    :param premises: the stated premises, as in the queries' groups.
    :param fold: fold of their facts, from 1; None if those are held out.
    """

    rule: str
    premises: str
    fold: int | None

    @property
    def name(self) -> str:
        """Name of the file with its learnt tokens."""
        return f"{self.rule}-{self.premises}" + ("" if self.fold is None else f"-fold-{self.fold}")


class EntailmentProbe(SlotProbe):
    """The entailment probe for masked models.

    :raises BadInput: also for a model that takes no vectors, and for missing learnt templates.
    """

    name = "entailment"
    options: EntailmentOptions
    reads_text = False

    def __init__(self, options: EntailmentOptions, model: Model, queryset: QuerySet) -> None:
        super().__init__(options, model, queryset)
        model.require_vectors()
        self.wording = RuleWording(options.soft, options.soft_conjunction)
        self.blocks = list(dict.fromkeys(self._block(query) for query in queryset.queries))
        self._vectors: Tensor | None = None
        self._trained = 0
        self._start = cache(self._starting)

    @staticmethod
    def _alternative(options: SlotOptions, model: Model) -> str:
        return ALTERNATIVE

    @classmethod
    def create(cls, options: EntailmentOptions, model: Model, queryset: QuerySet) -> Probe:
        return (CausalEntailmentProbe if model.attention is Attention.CAUSAL else cls)(options, model, queryset)

    @classmethod
    def complete_options(cls, options: OntologyT, data: QuerySet) -> OntologyT:  # type: ignore[override]
        return complete_folds(options, data)

    def resolved(self) -> Facts:
        files = sorted({self._file(block, task) for block in self.blocks for task in self._tasks(block)})
        digest = hashlib.sha256(b"".join(map(read_bytes, files))).hexdigest()[:16] if files else None
        return {**super().resolved(), "learnt": digest}

    def circumstances(self) -> Facts:
        return {**super().circumstances(), **({"trainings": self._trained} if self.wording.conjunction else {})}

    def count_texts(self, shard: str) -> int:
        if self.wording.conjunction:
            raise BadInput(f"--soft-conjunction: {NO_ESTIMATE}")
        return super().count_texts(shard)

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        super().prepare(artifacts, progress)
        rules = list(self.queryset.by_relation())
        self._pairs = drawn_pairs(artifacts / PSEUDOWORDS, self.model, rules, self.options)
        trained = []
        for number, block in enumerate(self.blocks):
            progress(number, len(self.blocks))
            trained.append(self._learnt(block, artifacts / "soft" / f"{block.name}.safetensors"))
        rows = torch.cat([*trained, *self._pairs.values()])
        self._vectors = rows.to(self.model.device)

    # ------------------------------------------------------------------------------------------------ learnt tokens

    def _tasks(self, block: _Block) -> list[str]:
        """Return the memorising tasks whose learnt templates occur in the block's texts."""
        tasks = dict.fromkeys(source.task for source in self._sources(block))
        return [task for task in tasks if task != CONJUNCTION]

    def _sources(self, block: _Block) -> tuple[TokenStart, ...]:
        return sources(block.rule, block.premises, self.wording)

    def _file(self, block: _Block, task: str) -> Path:
        """Return the memorising run's file of a task."""
        folder = self.options.learnt
        if folder is None:
            raise BadInput("--learnt: give artifacts/soft of a run of the ontology probe with --soft")
        folds: Iterable[int | None] = [block.fold]
        if block.fold is not None and task != RULES[block.rule]:
            folds = range(1, (self.options.folds or FOLDS) + 1)
        files = [folder / learnt_file(task, fold, self.ways[0].name) for fold in folds]
        file = next(filter(stands, files), None)
        if file is None:
            crossed = "" if block.fold is None else " --cross-validate, the same --folds and --seed"
            raise BadInput(
                f"{files[0]} does not exist: run the ontology probe with --soft{crossed}, task {task}, and the same "
                "--masks and --reduction"
            )
        return file

    def _starting(self, block: _Block) -> Tensor:
        """Return the initial values of the block's learnt tokens, shape (tokens, d)."""
        loaded = {task: load_learnt(self._file(block, task)) for task in self._tasks(block)}
        fold = [] if block.fold is None else [str(block.fold)]
        made = random_start(self.model, 2, self.options.seed, CONJUNCTION, block.rule, block.premises, *fold)
        rows, conjunctions = [], iter(made)
        for task, place in self._sources(block):
            rows.append(next(conjunctions) if task == CONJUNCTION else loaded[task][place])
        return torch.stack(rows) if rows else made[:0]

    def _learnt(self, block: _Block, file: Path) -> Tensor:
        """Return the block's learnt tokens, trained if a conjunction is among them."""
        start = self._start(block)
        if CONJUNCTION not in {source.task for source in self._sources(block)}:
            return start
        if not stands(file):
            options = self.options
            items, validation = self._lessons(block)
            plan = SoftPlan(options.loss, options.epochs, options.learning_rate, options.batch_size, options.seed)
            names = self._names(self._space_of(block), " ")
            pairs = self._pairs[block.rule]
            save_learnt(
                file, learn(self.model, names, self.ways[0], items, validation, start, plan, self.budget, pairs)
            )
            self._trained += 1
        return load_learnt(file)

    def _lessons(self, block: _Block) -> tuple[list[GoldSlot], list[GoldSlot]]:
        """Return the items to learn from, and those that choose the epoch. :raises BadInput: there are none."""
        queries = self._training(block, TRAIN)
        if block.fold is None:
            able = self._items(block, [*queries, *self._training(block, DEV)])
            parts = [[query.id for query in self._training(block, subset)] for subset in (TRAIN, DEV)]
        else:
            able = self._items(block, queries)
            fold_of = {query.id: int(query.groups[FOLD]) - 1 for query in queries}
            parts = [*taught(fold_of, block.fold - 1, able)]
        train, dev = ([able[id_] for id_ in ids if id_ in able] for ids in parts)
        for subset, ids, items in ((TRAIN, parts[0], train), (DEV, parts[1], dev)):
            if not items:
                fold = f"to {subset} fold {block.fold}" if block.fold else f"in the subset {subset}"
                raise BadInput(
                    f"a learnt conjunction: none of the {len(ids)} items of {block.rule} {fold} can be "
                    "learnt from; it needs some (docs/methods/entailment.md)"
                )
        return train, dev

    def _items(self, block: _Block, queries: Sequence[Query]) -> Mapping[str, GoldSlot]:
        name = self._space_of(block)
        space, ranked = self.queryset.candidates[name], self._names(name, " ").lengths > 0
        count = len(self._start(block))
        slots = self._slots(queries, [(1, count + 1)] * len(queries))
        return {
            query.id: GoldSlot(slot, tuple(place for place in space.places(query.gold) if ranked[place]))
            for query, slot in zip(queries, slots, strict=True)
            if slot is not None
            and query.unscored is None
            and not self._fault(query, slot, self._names(name, " "), space)
        }

    def _training(self, block: _Block, subset: str) -> list[Query]:
        whole = self.queryset.whole or self.queryset
        ids, alike = whole.subsets.get(subset, frozenset()), (block.rule, block.premises)
        return [query for query in whole.queries if query.id in ids and self._block(query)[:2] == alike]

    def _space_of(self, block: _Block) -> str:
        return next(query.candidates for query in self.queryset.queries if self._block(query) == block)

    # --------------------------------------------------------------------------------------------- evaluation

    @staticmethod
    def _block(query: Query) -> _Block:
        fold = query.groups.get(FOLD)
        return _Block(query.relation, query.groups["given"], None if fold is None else int(fold))

    def _encoded(self, queries: Sequence[Query], prompts: Sequence[Prompt]) -> list[Slot | None]:
        return self._slots(queries, [self._rows_of[self._block(query)] for query in queries])

    def _slots(self, queries: Sequence[Query], rows: Sequence[tuple[int, int]]) -> list[Slot | None]:
        """:param rows: for each query, counted from 1, the row of its ``<s1>`` and that of the first pair's ``<x>``."""
        mask = str(self.model.tokenizer.mask_token)
        texts = [
            _as_rows(query.sentences[0].text, int(query.groups["pair"]), self.options.pairs, *first_rows)
            for query, first_rows in zip(queries, rows, strict=True)
        ]
        prompts = [Template(text).fill("", mask, capitalize=self.options.capitalize) for text in texts]
        return encode_slots(self.model.tokenizer, prompts, [self.model.vocabulary_size] * len(prompts))

    @cached_property
    def _rows_of(self) -> dict[_Block, tuple[int, int]]:
        """For each block, from 1, the row of its ``<s1>`` and that of the first pair's ``<x>``."""
        ends = list(accumulate((len(self._sources(block)) for block in self.blocks), initial=1))
        rules = list(self.queryset.by_relation())
        pairs = [ends[-1] + 2 * self.options.pairs * rules.index(block.rule) for block in self.blocks]
        return dict(zip(self.blocks, zip(ends[:-1], pairs, strict=True), strict=True))

    def _slot_scores(self, slots: Sequence[Slot], names: CandidateTokens) -> NDArray[np.float32]:
        self._passes += len(set(slots)) * len(names.masks(self.ways))
        return slot_scores(self.model, slots, names, self.ways, self.budget, self._vectors)

    def _answer(
        self, query: Query, space: CandidateSet, names: CandidateTokens, scores: NDArray[np.float32]
    ) -> Columns:
        """Drop the scores of all candidates, which could fill hundreds of megabytes."""
        row = super()._answer(query, space, names, scores)
        return {name: value for name, value in row.items() if name != "scores"}


def _as_rows(text: str, pair: int, count: int, learnt: int, pairs: int) -> str:
    """Number the pseudowords and learnt tokens of a text as rows of the matrix, from 1."""
    text = LEARNT.sub(lambda mark: f"<s{int(mark[1]) - 1 + learnt}>", text)
    return pairs_as_rows(text, pair, count, pairs)


class CausalEntailmentProbe(ShardedProbe):
    """The entailment probe for causal models.

    A candidate's score is the log-likelihood of the hypothesis from the answer on, given the text before it
    (:mod:`fathom.engine.scoring.pseudowords`). It ranks candidates like the likelihood of the whole text.

    :raises BadInput: an encoder-decoder, a model that takes no vectors, or learnt tokens.
    """

    scorings = (Scoring(StatementScoring(Reduction.SUM, Score.CONDITIONAL).name, "nats"),)
    reads_text = False

    def __init__(self, options: EntailmentOptions, model: Model, queryset: QuerySet) -> None:
        if model.attention is not Attention.CAUSAL:
            raise BadInput(f"the entailment probe needs a masked or a causal model, this one is {model.attention}")
        if options.soft or options.soft_conjunction:
            raise BadInput(f"learnt tokens need a masked model; '{model.identity.name}' is causal: use words")
        model.require_vectors()
        super().__init__(options, model, queryset)
        self.options = options
        self.bos = resolve_bos(model.tokenizer, Bos.AUTO)
        self._texts = PseudowordEncoder(model.tokenizer, self.bos, model.vocabulary_size)
        self._rules = list(queryset.by_relation())
        self._statements = 0

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        pairs = drawn_pairs(artifacts / PSEUDOWORDS, self.model, self._rules, self.options)
        self._vectors = torch.cat(list(pairs.values())).to(self.model.device)

    def circumstances(self) -> Facts:
        refusal = self.model.refuses_tree()
        engine = "token trie" if refusal is None else f"plain batches, because {refusal}"
        return {**super().circumstances(), "statements": self._statements, "engine": engine}

    def _cut(self) -> Iterator[Shard]:
        """Sort by text, so that a shard's texts share prefixes and queries share texts."""
        for name in dict.fromkeys(query.candidates for query in self.queryset.queries):
            most = max(1, SHARD_STATEMENTS // max(1, len(self.queryset.candidates[name])))
            alike = [query for query in self.queryset.queries if query.candidates == name]
            part: list[Query] = []
            for query in sorted(alike, key=self._text):
                if part and (len(part) >= SHARD_QUERIES or len({*map(self._text, part), self._text(query)}) > most):
                    yield Shard(0, tuple(part))
                    part = []
                part.append(query)
            if part:
                yield Shard(0, tuple(part))

    def _text(self, query: Query) -> str:
        """Return the query's text with pseudowords numbered as rows of the matrix."""
        count = self.options.pairs
        first = 1 + 2 * count * self._rules.index(query.relation)
        text = pairs_as_rows(query.sentences[0].text, int(query.groups["pair"]), count, first)
        return capitalized(text) if self.options.capitalize else text

    def _answered(self, shard: Shard) -> Answered:
        space = self.queryset.candidates[shard.space]
        reasons = {query.id: unrankable(query, space) for query in shard.queries}
        askable = dict.fromkeys(self._text(query) for query in shard.queries if reasons[query.id] is None)
        texts = {text: self._texts.encode(text, space.names) for text in askable}
        fitting = {text: ids for text, ids in texts.items() if too_long("", ids.longest, self.model) is None}
        self._statements += len(fitting) * len(space)
        asked = [query for query in shard.queries if reasons[query.id] is None and self._text(query) in fitting]
        asks = Counter(map(self._text, asked))
        searched = {text for text, ids in fitting.items() if asks[text] < SHARED_FROM and self._can_search(ids)}
        found = self._searched([query for query in asked if self._text(query) in searched], fitting)
        rest = [text for text in fitting if text not in searched]
        rows = pseudoword_scores(self.model, [fitting[text] for text in rest], self.budget, self._vectors)
        scores = dict(zip(rest, rows, strict=True))
        for query in shard.queries:
            text = self._text(query)
            prompted = PromptedQuery(query, 0, query.sentences[0].text, len(space))
            reason = reasons[query.id] or too_long("a statement", texts[text].longest, self.model)
            yield prompted, reason or [found.get(query.id) or self._answer(query, texts[text], scores[text])]

    def _can_search(self, text: PseudowordText) -> bool:
        """Return whether a search is faster and possible: no pseudoword follows the answer."""
        return (
            len(text.rest) >= SEARCHED_FROM
            and self.model.refuses_cache(text.longest) is None
            and all(id_ < self.model.vocabulary_size for ids in text.rest for id_ in ids)
        )

    def _searched(self, queries: Sequence[Query], texts: Mapping[str, PseudowordText]) -> dict[str, Columns]:
        """Rank gold answers by exact search, which runs fewer tokens than all candidates have."""
        alike: dict[tuple[tuple[int, ...], ...], list[Query]] = {}
        for query in queries:
            alike.setdefault(texts[self._text(query)].rest, []).append(query)
        columns = {}
        for rest, members in alike.items():
            space = self.queryset.candidates[members[0].candidates]
            questions = [
                SearchQuestion(texts[self._text(query)].before, space.places(query.gold), space.places(query.known))
                for query in members
            ]
            trie, plan = AnswerTrie(rest, space.ids), SearchPlan(TOP, every_gold=True)
            results = search(self.model, trie, questions, plan, self.budget, self._vectors)
            for query, question, found in zip(members, questions, results, strict=True):
                tokens = token_counts(trie, question, found)
                tokens["gold_tokens"] = [texts[self._text(query)].answers[place] for place in question.gold]
                if found.result.unscored is None:
                    best = question.gold[int(np.argmax(found.result.gold_scores))]
                    tokens["scored_tokens"] = len(rest[best])
                columns[query.id] = result_columns(found.result, space) | tokens
        return columns

    def _answer(self, query: Query, text: PseudowordText, scores: NDArray[np.float64]) -> Columns:
        """Drop the scores of all candidates, as for masked models."""
        space = self.queryset.candidates[query.candidates]
        gold_tokens = [text.answers[place] for place in space.places(query.gold)]
        counted = count_scored(self.model, text)
        row = score_columns(query, space, scores, gold_tokens, counted, top_k=TOP, what="statements")
        return {name: value for name, value in row.items() if name != "scores"}


def drawn_pairs(file: Path, model: Model, rules: Sequence[str], options: EntailmentOptions) -> dict[str, Tensor]:
    """Return the pairs of each rule, shape (2 · pairs, d), from the *file* if it exists.

    :raises BadInput: the file lacks a rule, or the model has no room for so many pseudowords.
    """
    if not stands(file):
        drawn = {rule: pseudowords(model, 2 * options.pairs, options.alpha, options.seed, rule) for rule in rules}
        with whole_file(file) as temporary:
            save_file(drawn, temporary)
    pairs = tensors_file(file, AGAIN)
    if missing := [rule for rule in rules if rule not in pairs or pairs[rule].ndim != 2]:
        raise BadInput(f"{file} has no vectors of {missing[0]}: {AGAIN}")
    return {rule: pairs[rule] for rule in rules}


def pairs_as_rows(text: str, pair: int, count: int, first: int) -> str:
    """Number the pseudowords of a text as rows of a matrix, from 1: ``<x>`` becomes ``<s7>``.

    :param count: number of pairs; ``<z>`` and ``<w>`` are the next pair.
    :param first: row of the rule's first ``<x>``.
    """
    first_of_pair, others = first + 2 * pair, first + 2 * ((pair + 1) % count)
    places = {X: first_of_pair, Y: first_of_pair + 1, Z: others, W: others + 1}
    return re.sub("|".join(places), lambda mark: f"<s{places[mark[0]]}>", text)
