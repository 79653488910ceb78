"""Pre-training with planted truth: language models from scratch that did, or did not, read a graph's test triples.

Both read the same texts. A link predictor that starts from a contaminated model can remember answers by the names of
entities; one that starts from a clean model cannot. A study of memory and inference must distinguish these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom._version import VERSION
from fathom.base.errors import refuse
from fathom.base.reading import Json
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.data.templates import Prompt
from fathom.store.files import write_json
from fathom.store.outputs import obstacles, signature_of, whole_folder
from fathom.training.loop import OnProgress
from fathom.training.small import (
    SENTINELS,
    Batch,
    Objective,
    encode,
    encode_statements,
    fitted,
    learn_tokenizer,
    save,
    shape_faults,
)
from fathom_kgc.pretraining.options import PretrainOptions
from fathom_kgc.pretraining.texts import PHRASINGS, KeptTexts, named_triples, read_texts, sham_triples, statements

WINDOW = 4096
"""Texts that are sorted by length together, so that little is padded."""
LONGEST = 512
"""Tokens that the models take."""


def pretrain(
    data: QuerySet,
    sources: Sequence[str | Path],
    options: PretrainOptions,
    out: Path,
    on_progress: OnProgress | None = None,
) -> Json:
    """Train a language model from scratch into the folder *out*: the model, and ``pretraining.json``.

    :param data: a knowledge graph, whose names and descriptions are read, and whose triples may be stated.
    :param sources: other texts, see :func:`~fathom_kgc.pretraining.texts.read_texts`.
    :returns: the content of ``pretraining.json``: options, counts of texts and statements, the training.
    :raises BadInput: *out* exists, no graph, a split that it does not have, a source that cannot be read.
    :raises MadeBefore: the same call has made *out*.
    :raises RunFailed: the loss became NaN. Nothing is written.
    """
    digest = None if data.graph is None else data.graph.content_hash
    signature = signature_of("kgc pretrain", options.model_dump(mode="json"), files=sources, data=digest)
    graph = _check(data, options, obstacles(out, signature))
    with whole_folder(out, signature) as folder:
        return _pretrain_into(folder, graph, data.name, sources, options, on_progress)


def _pretrain_into(
    folder: Path,
    graph: KnowledgeGraph,
    name: str,
    sources: Sequence[str | Path],
    options: PretrainOptions,
    on_progress: OnProgress | None,
) -> Json:
    texts = read_texts(graph, name, sources, options.max_texts, options.seed)
    special = SENTINELS if options.kind == "t5" else ()
    tokenizer = learn_tokenizer(_to_learn_from(texts, graph), options.vocabulary, options.kind, special)
    sham = sham_triples(graph, options.contaminate, options.seed) if options.sham else None
    stated = statements(named_triples(graph, options.contaminate) if sham is None else sham.triples)
    batches = _Reading(texts.texts, stated, tokenizer, options)
    trained = fitted(options, tokenizer, LONGEST, batches, len(batches.rows), on_progress)
    summary = {
        "options": options.model_dump(mode="json"),
        "data": {"name": name, "content_hash": graph.content_hash},
        "sources": texts.read,
        "texts": len(texts.texts),
        "left_out": {"texts": texts.left_out, "why": "they name both ends of a triple outside of the training split"},
        "stated": {
            "triples": len(stated),
            "statements": batches.stated,
            "phrasings": list(PHRASINGS) if stated else [],
        },
        **({} if sham is None else {"sham": {"of_triples": sham.of_wanted, "same_tail": sham.same_tail}}),
        "tokens": batches.tokens,
        "vocabulary": len(tokenizer),
        **trained.summary(),
        "of_steps": len(batches.rows),
        "curve": [point._asdict() for point in trained.curve],
        "version": VERSION,
    }
    save(trained.network, tokenizer, LONGEST, folder)
    write_json(folder / "pretraining.json", summary)
    return summary


def _check(data: QuerySet, options: PretrainOptions, faults: list[str]) -> KnowledgeGraph:
    faults += shape_faults(options)
    if data.graph is None or not len(data.graph):
        faults.append(f"{data.name} is no knowledge graph: give a folder with train.tsv, or a file of triples")
    else:
        having = ", ".join(data.graph.splits) or "none"
        faults += [
            f"--contaminate {split}: {data.name} has no such split, but {having}"
            for split in options.contaminate
            if split not in data.graph.splits
        ]
    if options.sham and not options.contaminate:
        faults.append("--sham: name with --contaminate the splits whose triples the contaminated model reads")
    elif options.sham and (data.graph is None or "train" not in data.graph.splits or "train" in options.contaminate):
        faults.append("--sham states training triples: expected a training split, and --contaminate with other splits")
    refuse(faults)
    assert data.graph is not None
    return data.graph


def _to_learn_from(texts: KeptTexts, graph: KnowledgeGraph) -> Iterator[str]:
    """Yield texts for the vocabulary, which does not depend on the stated triples."""
    yield from texts.texts
    yield from graph.entities.column("name").to_pylist()
    for name in graph.relations.column("name").to_pylist():
        yield from (phrasing.format(name) for phrasing in PHRASINGS)


class _Reading:
    """All texts and statements in reading order, drawn from the seed.

    :param stated: the statements of each triple, in the order of the :data:`PHRASINGS`.
    """

    def __init__(
        self,
        texts: list[str],
        stated: Sequence[Sequence[Prompt]],
        tokenizer: PreTrainedTokenizerBase,
        options: PretrainOptions,
    ) -> None:
        self.texts = encode(tokenizer, texts, options.max_tokens)
        self.first_statement = len(self.texts)
        self.texts += encode_statements(tokenizer, [phrasing for triple in stated for phrasing in triple])
        self.objective = Objective(options.kind, tokenizer, np.random.default_rng([options.seed, 1]))
        self.random = np.random.default_rng([options.seed, 0])
        self.lengths = np.array([len(text.ids) for text in self.texts])
        self.rows = self._cut(self._order(options.epochs, options.exposures), options.batch_tokens)
        self.tokens = self.stated = 0
        """Read so far: tokens of the texts, and statements."""

    def __iter__(self) -> Iterator[Batch]:
        for rows in self.rows:
            self.tokens += int(self.lengths[rows].sum())
            self.stated += int((rows >= self.first_statement).sum())
            yield self.objective.batch([self.texts[row] for row in rows])

    def _order(self, epochs: int, exposures: int) -> NDArray[np.int64]:
        """Return places in reading order. Statements of a triple are spread evenly, phrasings taking turns."""
        texts = np.arange(self.first_statement)
        times = [epoch + self.random.random(len(texts)) for epoch in range(epochs)]
        rows = [texts] * epochs
        turns = -(-exposures // len(PHRASINGS))
        for first in range(self.first_statement, len(self.texts), len(PHRASINGS)):
            phrasings = np.concatenate([self.random.permutation(len(PHRASINGS)) for _ in range(turns)])[:exposures]
            rows.append(first + phrasings)
            times.append(epochs * (np.arange(exposures) + self.random.random(exposures)) / exposures)
        return np.concatenate(rows)[np.argsort(np.concatenate(times), kind="stable")]

    def _cut(self, order: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
        """Cut into batches of texts of similar length. :param most: tokens of a batch, padding included."""
        batches = []
        for start in range(0, len(order), WINDOW):
            rows = order[start : start + WINDOW]
            rows = rows[np.argsort(self.lengths[rows], kind="stable")[::-1]]
            cut, at = [], 0
            while at < len(rows):  # the first is the longest
                count = max(1, most // (int(self.lengths[rows[at]]) + 2))
                cut.append(rows[at : at + count])
                at += count
            batches += [cut[place] for place in self.random.permutation(len(cut))]
        return batches
