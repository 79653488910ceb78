"""What follows from premises about pseudowords (OntoProbe, Wu et al. 2023, section 3.2); asked by the entailment study.

The texts are those of :mod:`fathom.prompts.entailment`. Pseudowords and learnt tokens are rows of one matrix beside the
model's own: first the learnt tokens of each rule and each way of giving premises, then the pairs of each rule. Learnt
templates begin as the memorising run has learnt them; where conjunctions are learnt, all learnt tokens of a text are
trained on, once for each rule and way of giving, the training items meeting the pairs in turn. Pseudowords stay fixed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.templates import Prompt, Template
from fathom.errors import BadInput
from fathom.models.base import Attention, Model
from fathom.probes.base import Facts
from fathom.probes.entailment_causal import CausalProbe
from fathom.probes.entailment_pairs import PSEUDOWORDS, drawn_pairs, pairs_as_rows
from fathom.probes.options import EntailmentOptions
from fathom.probes.slot import SlotProbe
from fathom.progress import Progress
from fathom.prompts.entailment import CONJUNCTION, RuleWording, sources
from fathom.reading import read_bytes, stands
from fathom.scoring.rows import Columns
from fathom.scoring.slots import LEARNT, Names, Slot, encode_slots, slot_scores
from fathom.training.soft import GoldSlot, SoftPlan, learn, load_learnt, random_start, save_learnt

TRAIN, DEV = "train", "dev"
INSTEAD = "let it choose among a few answers: fathom build choices, then fathom probe choice"
"""What to do with a model that is neither masked nor causal."""


class _Block(NamedTuple):
    """Texts that share their learnt tokens.

    :param given: which premises are said, as in the queries' groups.
    """

    rule: str
    given: str


def probe(options: EntailmentOptions, model: Model, queryset: QuerySet) -> Probe | CausalProbe:
    """What asks this kind of model. :raises BadInput: it is of another kind, or see the probes."""
    if model.attention is Attention.CAUSAL:
        return CausalProbe(options, model, queryset)
    return Probe(options, model, queryset)


class Probe(SlotProbe):
    """Of masked models. See :class:`fathom.probes.slot.SlotProbe`.

    :raises BadInput: also where learnt templates are not to be found.
    """

    name = "entailment"
    options: EntailmentOptions

    def __init__(self, options: EntailmentOptions, model: Model, queryset: QuerySet) -> None:
        super().__init__(options, model, queryset)
        self.wording = RuleWording(options.soft, options.soft_conjunction)
        self.blocks = list(dict.fromkeys(self._block(query) for query in queryset.queries))
        self._vectors: Tensor | None = None
        self._trained = 0
        self._start = cache(self._starting)

    @staticmethod
    def _instead(options: Any, model: Model) -> str:
        return INSTEAD

    def resolved(self) -> Facts:
        """With what the learnt templates begin with, where they are loaded."""
        files = sorted({self._file(task) for block in self.blocks for task in self._tasks(block)})
        digest = hashlib.sha256(b"".join(map(read_bytes, files))).hexdigest()[:16] if files else None
        return {**super().resolved(), "learnt": digest}

    def circumstances(self) -> Facts:
        """Also how many trainings it took."""
        return {**super().circumstances(), **({"trainings": self._trained} if self.wording.conjunction else {})}

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Draw the pseudowords, and train what is to be learnt and is not there yet."""
        super().prepare(artifacts, progress)
        rules = list(self.queryset.by_relation())
        self._pairs = drawn_pairs(artifacts / PSEUDOWORDS, self.model, rules, self.options)
        trained = []
        for number, block in enumerate(self.blocks):
            progress(number, len(self.blocks))
            file = artifacts / "soft" / f"{block.rule}-{block.given}.safetensors"
            trained.append(self._learnt(block, file))
        rows = torch.cat([*trained, *self._pairs.values()])
        self._vectors = rows.to(self.model.device)

    # ------------------------------------------------------------------------------------------------ learnt tokens

    def _tasks(self, block: _Block) -> list[str]:
        """The memorising tasks whose learnt templates stand in its texts."""
        found = dict.fromkeys(source.task for source in sources(*block, self.wording))
        return [task for task in found if task != CONJUNCTION]

    def _file(self, task: str) -> Path:
        """Where the memorising run has what it learnt.

        :raises BadInput: it has not learnt it.
        """
        folder = self.options.learnt
        if folder is None:
            raise BadInput(
                "learnt templates come from a run of the ontology probe with --soft: give its artifacts/soft"
            )
        file = folder / f"{task}-{self.ways[0].name}.safetensors"
        if not stands(file):
            raise BadInput(
                f"{file} is not there: ask the ontology probe with --soft, the task {task}, and the same --masks and "
                "--reduction"
            )
        return file

    def _starting(self, block: _Block) -> Tensor:
        """What its learnt tokens begin with, shape (tokens, d)."""
        loaded = {task: load_learnt(self._file(task)) for task in self._tasks(block)}
        made = random_start(self.model, 2, self.options.seed, CONJUNCTION, *block)
        rows, conjunctions = [], iter(made)
        for task, place in sources(*block, self.wording):
            rows.append(next(conjunctions) if task == CONJUNCTION else loaded[task][place])
        return torch.stack(rows) if rows else made[:0]

    def _learnt(self, block: _Block, file: Path) -> Tensor:
        """Its learnt tokens as they are asked with; trained where a conjunction is among them."""
        start = self._start(block)
        if CONJUNCTION not in {source.task for source in sources(*block, self.wording)}:
            return start
        if not stands(file):
            options = self.options
            items, validation = self._items(block, TRAIN), self._items(block, DEV)
            plan = SoftPlan(options.loss, options.epochs, options.learning_rate, options.batch_size, options.seed)
            names = self._names(self._space_of(block), " ")
            pairs = self._pairs[block.rule]
            save_learnt(
                file, learn(self.model, names, self.ways[0], items, validation, start, plan, self.budget, pairs)
            )
            self._trained += 1
        return load_learnt(file)

    def _items(self, block: _Block, subset: str) -> list[GoldSlot]:
        """:raises BadInput: there are none."""
        name = self._space_of(block)
        space, ranked = self.queryset.candidates[name], self._names(name, " ").lengths > 0
        count = len(self._start(block))
        queries = self._training(block, subset)
        slots = self._slots(queries, [(1, count + 1)] * len(queries))
        found = [
            GoldSlot(slot, tuple(place for place in space.places(query.gold) if ranked[place]))
            for query, slot in zip(queries, slots, strict=True)
            if slot is not None
            and query.unscored is None
            and not self._fault(query, slot, self._names(name, " "), space)
        ]
        if not found:
            raise BadInput(
                f"a learnt conjunction: none of the {len(queries)} items of {block.rule} in the subset {subset} can be "
                "learnt from; it needs some (docs/methods/entailment.md)"
            )
        return found

    def _training(self, block: _Block, subset: str) -> list[Query]:
        whole = self.queryset.whole or self.queryset
        ids = whole.subsets.get(subset, frozenset())
        return [query for query in whole.queries if query.id in ids and self._block(query) == block]

    def _space_of(self, block: _Block) -> str:
        return next(query.candidates for query in self.queryset.queries if self._block(query) == block)

    # ------------------------------------------------------------------------------------------------ asking

    @staticmethod
    def _block(query: Query) -> _Block:
        return _Block(query.relation, query.groups["given"])

    def _encoded(self, queries: Sequence[Query], prompts: Sequence[Prompt]) -> list[Slot | None]:
        return self._slots(queries, [self._rows_of(self._block(query)) for query in queries])

    def _slots(self, queries: Sequence[Query], rows: Sequence[tuple[int, int]]) -> list[Slot | None]:
        """:param rows: for each query, counted from 1, the row of its ``<s1>`` and that of the first pair's ``<x>``."""
        mask = str(self.model.tokenizer.mask_token)
        texts = [
            _as_rows(query.sentences[0].text, int(query.groups["pair"]), self.options.pairs, *own)
            for query, own in zip(queries, rows, strict=True)
        ]
        prompts = [Template(text).fill("", mask, capitalize=self.options.capitalize) for text in texts]
        return encode_slots(self.model.tokenizer, prompts, [self.model.vocabulary_size] * len(prompts))

    def _rows_of(self, block: _Block) -> tuple[int, int]:
        counts = [len(sources(*one, self.wording)) for one in self.blocks]
        learnt = 1 + sum(counts[: self.blocks.index(block)])
        pairs = 1 + sum(counts) + 2 * self.options.pairs * list(self.queryset.by_relation()).index(block.rule)
        return learnt, pairs

    def _slot_scores(self, slots: Sequence[Slot], names: Names) -> NDArray[np.float32]:
        self._passes += len(set(slots)) * len(names.masks(self.ways))
        return slot_scores(self.model, slots, names, self.ways, self.budget, self._vectors)

    def _answer(self, query: Query, space: CandidateSet, names: Names, scores: NDArray[np.float32]) -> Columns:
        """Without the scores of all candidates: those of a rule with many items would fill hundreds of megabytes."""
        row = super()._answer(query, space, names, scores)
        return {name: value for name, value in row.items() if name != "scores"}


def _as_rows(text: str, pair: int, count: int, learnt: int, pairs: int) -> str:
    """The text with its pseudowords and learnt tokens numbered as rows of the matrix, from 1.

    :param count: of pairs; others that are named are the next pair, in turn.
    :param learnt: row of its first learnt token. :param pairs: row of the first pair's ``<x>``.
    """
    text = LEARNT.sub(lambda found: f"<s{int(found[1]) - 1 + learnt}>", text)
    return pairs_as_rows(text, pair, count, pairs)
