"""Prompts of the prompted predictor: candidates, some training triples, and the query (Xie et al. 2023).

Candidates and triples are retrieved by BM25 as in Sakai et al. 2024, appendix A.2. Wording, explanations of the triples
and other defaults are those of the authors' code (github.com/zjunlp/PromptKG, ``lambdaKG/LLM``). Queries for heads,
which that code lacks, are worded likewise.

The other wording is AutoKG's (Zhu et al. 2023; github.com/zjunlp/AutoKG, ``KG Reasoning/FB15k-237/prompts``). It shows
no candidates and retrieves nothing: 0-shot, or after answered queries of the same relation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.errors import MissingExtra
from fathom.links.options import Prompted
from fathom.links.reading import GraphTexts, examples_of_relations

LEAD = "The answer is"
"""What the demonstrations say before an answer."""
FILLED = ", so the [MASK] is"
"""What those of AutoKG say after it."""
FURTHER_TRIPLES = 50
"""Where triples give the candidates, so many more are retrieved than candidates are wanted, as answers repeat."""


class Bm25:
    """BM25 scores of texts, with k1 = 1.5, b = 0.75 and Lucene's inverse document frequency.

    :raises MissingExtra: bm25s is not installed.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        try:
            from bm25s import BM25
        except ImportError as error:
            raise MissingExtra("bm25s", "kgc") from error
        self._size, self._index = len(texts), BM25(k1=1.5, b=0.75, method="lucene")
        if texts:
            # bm25s takes no corpus without any word
            self._index.index([_words(text) or [""] for text in texts], show_progress=False)

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of each text, 0 if it shares no word with *query*; shape (texts,)."""
        known = [word for word in _words(query) if self._size and word in self._index.vocab_dict]
        if not known:
            return np.zeros(self._size, dtype=np.float32)
        return self._index.get_scores(known)  # type: ignore[no-any-return]

    def best(self, query: str, count: int) -> list[int]:
        """Places of the texts that share a word with *query*, best first, level ones in their order."""
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[:count]
        return order[scores[order] > 0].tolist()  # type: ignore[no-any-return]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class Shown(NamedTuple):
    """A query as a language model reads it.

    :param prompt: candidates, triples and the query.
    :param candidates: their places among the graph's entities, in the order shown.
    :param end: what follows an answer in the demonstrations.
    """

    prompt: str
    candidates: tuple[int, ...]
    end: str = "."


class Prompts:
    """The prompts of one graph. A prompt depends on its query alone.

    ``gold_listed`` counts the queries whose gold answer was retrieved as a candidate. ``drawn`` counts candidates drawn
    at random because BM25 returned too few.
    """

    def __init__(self, graph: KnowledgeGraph, options: Prompted) -> None:
        self.graph, self.options = graph, options
        self.texts = GraphTexts(graph, options.descriptions)
        self._all_entities = tuple(range(len(self.texts.names)))
        self.head, self.relation, self.tail = graph.columns(graph.training)
        self.gold_listed = self.drawn = 0

    @cached_property
    def entities(self) -> Bm25:
        """Index of names and descriptions."""
        return Bm25([f"{name} {said}" for name, said in zip(self.texts.names, self.texts.descriptions, strict=True)])

    @cached_property
    def triples(self) -> Bm25:
        """Index of the training triples in words, which serves both directions."""
        columns = zip(self.head.tolist(), self.relation.tolist(), self.tail.tolist(), strict=True)
        names = self.texts.names
        return Bm25([f"{self._question(h, r, False)} {LEAD} {names[t]}." for h, r, t in columns])

    def make(self, links: Links) -> list[Shown]:
        """Return a prompt for each query."""
        columns = zip(*(c.tolist() for c in (links.given, links.relation, links.inverse, links.gold)), strict=True)
        if self.options.wording == "autokg":
            self.gold_listed += len(links)
            return [self._to_fill(given, relation, inverse) for given, relation, inverse, _ in columns]
        return [self._shown(*question) for question in columns]

    @cached_property
    def _examples(self) -> list[list[tuple[int, int]]]:
        return examples_of_relations(self.graph, self.options.demonstrations, self.options.seed)

    def _to_fill(self, given: int, relation: int, inverse: bool) -> Shown:
        """Return AutoKG's prompt; no demonstration mentions the entity of the query."""
        others = [ends for ends in self._examples[relation] if given not in ends][: self.options.demonstrations]
        lines = []
        for ends in others:
            known, answer = reversed(ends) if inverse else ends
            query, name = self._masked(known, relation, inverse, space=" "), self.texts.names[answer]
            lines.append(f"{query}{LEAD} {name}{FILLED} {name}.")
        lines.append(self._masked(given, relation, inverse))
        return Shown("\n".join(lines), self._all_entities, end="," if others else ".")

    def _masked(self, given: int, relation: int, inverse: bool, space: str = "") -> str:
        """Word a query with [MASK]. :param space: before the quotation mark; only published demonstrations have one."""
        name, link = self.texts.names[given], self.texts.relations[relation]
        triple = f"([MASK], {link}, {name})" if inverse else f"({name}, {link}, [MASK])"
        return (
            f"predict the {'head' if inverse else 'tail'} entity [MASK] from the given {triple} by completing the "
            f'sentence "{self._question(given, relation, inverse)} {LEAD}{space}".'
        )

    def _shown(self, given: int, relation: int, inverse: bool, gold: int) -> Shown:
        options, question = self.options, self._question(given, relation, inverse)
        wanted = options.demonstrations and options.demonstrations + 1  # one more, as the triple asked for is left out
        if options.candidates_by == "triples":
            wanted = max(wanted, options.candidates + FURTHER_TRIPLES)
        triples = self.triples.best(question, wanted) if wanted else []
        candidates = self._candidates(given, relation, inverse, triples)
        self.gold_listed += gold in candidates
        if options.gold_among_candidates and gold not in candidates:
            candidates[-1] = gold
        random = np.random.default_rng([options.seed, given, relation, inverse])
        candidates = random.permutation(candidates).tolist()
        asked, answer = ("tail", "head") if inverse else ("head", "tail")
        names = ", ".join(dict.fromkeys(self.texts.names[place] for place in candidates))
        lines = [f"Given {asked} entity and relation, predict the {answer} entity from the candidates: {names}."]
        lines += self._demonstrations((given, relation, gold), inverse, triples)
        return Shown("\n".join([*lines, question]), tuple(candidates))

    def _question(self, given: int, relation: int, inverse: bool) -> str:
        name, link = self.texts.names[given], self.texts.relations[relation]
        return f"{name} is the {link} of what?" if inverse else f"what is the {link} of {name}?"

    def _candidates(self, given: int, relation: int, inverse: bool, triples: Sequence[int]) -> list[int]:
        """Return candidates, best first; the rest are drawn by the seed if BM25 returns too few."""
        texts, wanted = self.texts, min(self.options.candidates, len(self.texts.names))
        if self.options.candidates_by == "triples":
            _, answers = self._ends(inverse)
            candidates = list(dict.fromkeys(answers[triples].tolist()))[:wanted]
        else:
            query = f"{texts.relations[relation]} {texts.names[given]} {texts.descriptions[given]}"
            candidates = self.entities.best(query, wanted)
        missing = wanted - len(candidates)
        self.drawn += missing
        if missing:
            random = np.random.default_rng([self.options.seed, given, relation, inverse])
            others = np.setdiff1d(np.arange(len(texts.names)), candidates)
            candidates += random.choice(others, missing, replace=False).tolist()
        return candidates

    def _ends(self, inverse: bool) -> tuple[Places, Places]:
        """Return the known and the missing end of all training triples."""
        return (self.tail, self.head) if inverse else (self.head, self.tail)

    def _demonstrations(self, query: tuple[int, int, int], inverse: bool, triples: Sequence[int]) -> Iterator[str]:
        givens, answers = self._ends(inverse)
        columns = (column[triples].tolist() for column in (givens, self.relation, answers))
        others = [triple for triple in zip(*columns, strict=True) if triple != query]
        for given, relation, answer in others[: self.options.demonstrations]:
            name, answer_name = self.texts.names[given], self.texts.names[answer]
            why = rationale(self.texts.descriptions[given], name, answer_name)
            yield " ".join([self._question(given, relation, inverse), *why, f"{LEAD} {answer_name}."])


def rationale(description: str, given: str, answer: str) -> list[str]:
    """Return the sentences of a description that name the answer, after the first that names the entity.

    If none names the answer, return the first sentence.
    """
    sentences = [part.rstrip(".") + "." for part in re.split(r"(?<=[.!?])\s+", description.strip()) if part]
    naming = [sentence for sentence in sentences if answer.casefold() in sentence.casefold()]
    if not naming:
        return sentences[:1]
    about = [sentence for sentence in sentences if given.casefold() in sentence.casefold()][:1]
    return list(dict.fromkeys([*about, *naming]))
