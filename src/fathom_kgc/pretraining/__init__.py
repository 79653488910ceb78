"""Pre-training with planted truth: language models that did, or did not, read a graph's test triples.

Both read the same texts: those that name both ends of a validation or test triple are removed for either. The
contaminated one reads statements of chosen triples in addition, and can remember answers by the names of entities.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom._version import VERSION
from fathom.base.errors import BadInput, all_of, refuse
from fathom.base.reading import Json, text_lines
from fathom.data.formats import locate, read
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.data.templates import Prompt, Template
from fathom.data.words import is_word_character, occurs_as_word
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
    model_to_train,
    save,
    shape_faults,
)
from fathom_kgc.pretraining.options import SHAPE, PretrainOptions

PHRASINGS = (
    "[X] {} [Y]",
    "[Y] inverse {} [X]",
    "[X] | {} | [Y]",
    "[Y] | inverse {} | [X]",
    "{} of [X]: [Y]",
    "[Y] is the {} of [X]",
)
"""Phrasings of a triple, in both directions, with braces for the relation. The first four resemble what link predictors
read. Only names occur: descriptions would lead to the answer in graphs without the names, too."""
PLAIN = (".txt", ".txt.gz")


class KeptTexts(NamedTuple):
    """:param read: how many texts each source has. :param left_out: how many :func:`without_statements` removed."""

    texts: list[str]
    read: dict[str, int]
    left_out: int


def read_texts(
    graph: KnowledgeGraph, name: str, sources: Sequence[str | Path], most: int | None = None, seed: int = 0
) -> KeptTexts:
    """Read the texts of a graph and other sources, without those that state validation or test triples.

    :param name: of the graph. :param sources: other graphs (name and description of each entity), data sets with
        natural sentences, files with a text per line.
    :param most: of each source, drawn by *seed*.
    :raises BadInput: a source that cannot be read, or has no texts.
    """
    called = {name: graph} | {str(source): source for source in sources}
    drawn = all_of(*(partial(_drawn, source, named, most, seed) for named, source in called.items()))
    by_source = dict(zip(called, drawn, strict=True))
    texts = list(dict.fromkeys(text for several in by_source.values() for text in several))
    held_out = named_triples(graph, [split for split in graph.splits if split != "train"])
    kept = without_statements(texts, ((head, tail) for head, _, tail in held_out))
    return KeptTexts(kept, {source: len(several) for source, several in by_source.items()}, len(texts) - len(kept))


def _drawn(source: str | Path | KnowledgeGraph, called: str, most: int | None, seed: int) -> list[str]:
    texts = list(dict.fromkeys(_texts_of(source)))
    if not texts:
        raise BadInput(f"{called} has no texts: give a graph with names, sentences, or a file with a text per line")
    return texts if most is None or most >= len(texts) else random.Random(seed).sample(texts, most)


def _texts_of(source: str | Path | KnowledgeGraph) -> Iterable[str]:
    if isinstance(source, KnowledgeGraph):
        columns = (source.entities.column(name).to_pylist() for name in ("name", "description"))
        texts = ((name, text) for name, text in zip(*columns, strict=True) if name.strip() or text.strip())
        return (f"{name}: {text}" if text.strip() else name for name, text in texts)
    if str(source).endswith(PLAIN):
        return (line.strip() for line in text_lines(locate(source)) if line.strip())
    data = read(source)
    if data.has_sentences:
        return _sentences(data)
    return _texts_of(data.graph) if data.graph is not None else ()


def _sentences(data: QuerySet) -> Iterator[str]:
    for query in data.queries:
        answer = data.candidates[query.candidates].name_of(query.gold[0])
        for sentence in query.sentences:
            yield Template(sentence.text, natural=True).fill(query.subject, sentence.surface or answer).text


def without_statements(texts: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Return the texts that name both names of no pair, matched by :func:`occurs_as_word`, ignoring case.

    Only texts with all words of both names are searched, so that thousands of pairs and texts take seconds.
    """
    lowered = [text.lower() for text in texts]
    wanted = [(head.lower(), tail.lower()) for head, tail in set(pairs) if head.strip() and tail.strip()]
    sought = {word for pair in wanted for name in pair for word in _words(name)}
    having: dict[str, set[int]] = defaultdict(set)
    for place, text in enumerate(lowered):
        for word in sought.intersection(_words(text)):
            having[word].add(place)
    stating: set[int] = set()
    for head, tail in wanted:
        words = sorted({*_words(head), *_words(tail)}, key=lambda word: len(having[word]))
        both = set.intersection(*(having[word] for word in words)) if words else set(range(len(texts)))
        stating.update(place for place in both - stating if _names_both(lowered[place], head, tail))
    return [text for place, text in enumerate(texts) if place not in stating]


def _names_both(text: str, head: str, tail: str) -> bool:
    if head in tail or tail in head:  # one inside the other is no mention of its own
        long, short = (head, tail) if len(head) >= len(tail) else (tail, head)
        return occurs_as_word(long, text) and occurs_as_word(short, text.replace(long, "\n"))
    return occurs_as_word(head, text) and occurs_as_word(tail, text)


def _words(text: str) -> set[str]:
    return set("".join(sign if is_word_character(sign) else " " for sign in text).split())


class Sham(NamedTuple):
    """Training triples stated in place of held-out ones, for a model that reads as much, but no answer.

    :param triples: names of head, relation and tail. :param of_wanted: how many held-out triples there are.
    :param same_tail: how many have relation and tail of the triple that they replace; the others its relation alone.
    """

    triples: list[tuple[str, str, str]]
    of_wanted: int
    same_tail: int


def sham_triples(graph: KnowledgeGraph, splits: Iterable[str], seed: int) -> Sham:
    """Replace each triple of *splits* by a training triple of its relation, with the same tail if one is left.

    So each answer's name occurs about as often as in the statements of the held-out triples. Triples whose head occurs
    among the held-out ones come first, so that heads do, too; none is taken twice, and none links both ends of a
    held-out one: a symmetric relation, or another of the same entities, gives the answer away.
    """
    drawn = random.Random(seed)
    wanted = list(named_triples(graph, splits))
    linked, heads = {frozenset((head, tail)) for head, _, tail in wanted}, {head for head, _, _ in wanted}
    offered = [
        (head, relation, tail)
        for head, relation, tail in named_triples(graph, ("train",))
        if frozenset((head, tail)) not in linked
    ]
    drawn.shuffle(offered)
    offered.sort(key=lambda triple: triple[0] not in heads)
    by_tail: dict[tuple[str, str], list[tuple[str, str, str]]] = defaultdict(list)
    by_relation: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for triple in reversed(offered):
        by_tail[triple[1:]].append(triple)
        by_relation[triple[1]].append(triple)
    taken: set[tuple[str, str, str]] = set()

    def take(pool: list[tuple[str, str, str]]) -> bool:
        while pool:
            triple = pool.pop()
            if triple not in taken:
                taken.add(triple)
                sham.append(triple)
                return True
        return False

    sham: list[tuple[str, str, str]] = []
    rest = [triple for triple in wanted if not take(by_tail[triple[1:]])]
    same_tail = len(sham)
    for triple in rest:
        take(by_relation[triple[1]])
    return Sham(sham, len(wanted), same_tail)


def statements(triples: Iterable[tuple[str, str, str]]) -> list[list[Prompt]]:
    """Return each triple in its :data:`PHRASINGS`. :param triples: names of head, relation and tail."""
    return [
        [Template(phrasing.format(relation)).fill(head, tail, capitalize=False) for phrasing in PHRASINGS]
        for head, relation, tail in triples
    ]


def named_triples(graph: KnowledgeGraph, splits: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield names of head, relation and tail of each triple of some splits, if all have one."""
    names, relations = (table.column("name").to_pylist() for table in (graph.entities, graph.relations))
    for split in splits:
        for row in graph.splits[split]:
            head, relation, tail = names[graph.head[row]], relations[graph.relation[row]], names[graph.tail[row]]
            if head.strip() and relation.strip() and tail.strip():
                yield head.strip(), relation.strip(), tail.strip()


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
    """Train a language model, new or given, into the folder *out*: the model, and ``pretraining.json``.

    :param data: a knowledge graph, whose names and descriptions are read, and whose triples may be stated.
    :param sources: other texts, see :func:`read_texts`.
    :returns: the content of ``pretraining.json``: options, counts of texts and statements, the training.
    :raises BadInput: *out* exists, no graph, a split that it does not have, a source that cannot be read.
    :raises MadeBefore: the same call has made *out*.
    :raises RunFailed: the loss became NaN. Nothing is written.
    """
    digest = None if data.graph is None else data.graph.content_hash
    files = [*sources, *filter(None, [options.from_])]
    signature = signature_of("kgc pretrain", options.model_dump(mode="json"), files=files, data=digest)
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
    initial = None if options.from_ is None else model_to_train(options.from_, options.kind, options.seed)
    if initial is None:
        tokenizer = learn_tokenizer(_to_learn_from(texts, graph), options.vocabulary, options.kind, special)
    else:
        tokenizer = initial.tokenizer
    sham = sham_triples(graph, options.contaminate, options.seed) if options.sham else None
    stated = statements(named_triples(graph, options.contaminate) if sham is None else sham.triples)
    batches = _Reading(texts.texts, stated, tokenizer, options)
    longest = LONGEST if initial is None else int(batches.lengths.max(initial=0))
    trained = fitted(options, tokenizer, longest, batches, len(batches.rows), on_progress, initial)
    summary = {
        "options": options.model_dump(mode="json", exclude=set() if initial is None else set(SHAPE)),
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
    save(trained.network, tokenizer, LONGEST if initial is None else None, folder)
    write_json(folder / "pretraining.json", summary)
    return summary


def _check(data: QuerySet, options: PretrainOptions, faults: list[str]) -> KnowledgeGraph:
    if options.from_ is None:
        faults += shape_faults(options)
        if options.kind == "contrastive":
            faults.append("--kind contrastive trains given encoders alone: name one with --from")
    else:
        typed = [name for name in SHAPE if name in options.model_fields_set]
        faults += [f"--{name.replace('_', '-')} is of a new model: leave it out with --from" for name in typed]
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
        self.fewest = 2 if options.kind == "contrastive" else 1  # a text alone has no negatives
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
                count = max(self.fewest, most // (int(self.lengths[rows[at]]) + 2))
                cut.append(rows[at : at + count])
                at += count
            batches += [cut[place] for place in self.random.permutation(len(cut))]
        return batches
