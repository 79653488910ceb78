"""Texts for pre-training: texts without held-out triples, and statements of chosen triples.

A clean and a contaminated model read the same texts: those that name both ends of a validation or test triple are
removed for either. The contaminated one reads statements of chosen triples in addition.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fathom.base.errors import BadInput, all_of
from fathom.base.reading import text_lines
from fathom.data.formats import locate, read
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.data.templates import Prompt, Template
from fathom.data.words import is_word_character, occurs_as_word

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
    among the held-out ones come first, so that heads do, too; none is taken twice.
    """
    drawn = random.Random(seed)
    wanted = list(named_triples(graph, splits))
    held_out, heads = set(wanted), {head for head, _, _ in wanted}
    offered = [triple for triple in named_triples(graph, ("train",)) if triple not in held_out]
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
