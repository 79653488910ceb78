"""An untrained language model that is shown 100 candidates and five similar triples, and gives its ten best answers.

After LambdaKG (Xie et al. 2023; Sakai et al. 2024, appendices A.2 and B): a local model scores each candidate of
BM25; a server's is sampled. In AutoKG's wording (Zhu et al. 2023) every entity is a candidate. Candidates rank before
all other entities; a gold answer that is none is only known to be lower. See docs/methods/link-prediction.md.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fathom.base.errors import BadInput, optional
from fathom.base.progress import Progress
from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph, Places
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.generation import encode_prompts
from fathom.engine.models.loading import load
from fathom.engine.models.server import ChatReply, ChatRequest, ChatServer
from fathom.engine.scoring.answers import answer_key
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import RankResult, rank_best, top, unfiltered_ranks
from fathom.engine.scoring.search import SearchPlan, SearchQuestion, search
from fathom.engine.scoring.tokens import Bos, name_tokens, resolve_bos
from fathom.engine.scoring.trie import AnswerTrie
from fathom.probes.base import Facts
from fathom.store.predictions import Scoring
from fathom_kgc.links import base
from fathom_kgc.links.base import NOT_A_NUMBER, read_manifest
from fathom_kgc.links.options import PromptedModel
from fathom_kgc.links.texts import GraphTexts, examples_of_relations, load_config

ANSWERS = 10
"""A right answer that is not given is a miss up to here."""
REQUEST = "Reply with the name of one {} and nothing else."
LEAD = "The answer is"
"""What the demonstrations say before an answer."""
FILLED = ", so the [MASK] is"
"""What those of AutoKG say after it."""
FURTHER_TRIPLES = 50
"""Where triples give the candidates, so many more are retrieved than candidates are wanted, as answers repeat."""
Scores = NDArray[np.float64]


class Bm25:
    """BM25 scores of texts, with k1 = 1.5, b = 0.75 and Lucene's inverse document frequency.

    :raises MissingExtra: bm25s is not installed.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        bm25s = optional("bm25s", "kgc")
        self._size, self._index = len(texts), bm25s.BM25(k1=1.5, b=0.75, method="lucene")
        if texts:
            # bm25s takes no corpus without any word
            self._index.index([_words(text) or [""] for text in texts], show_progress=False)

    def scores(self, query: str) -> NDArray[np.float32]:
        """Return the score of each text, 0 if it shares no word with *query*; shape (texts,)."""
        words = [word for word in _words(query) if self._size and word in self._index.vocab_dict]
        if not words:
            return np.zeros(self._size, dtype=np.float32)
        return self._index.get_scores(words)  # type: ignore[no-any-return]

    def best(self, query: str, count: int) -> list[int]:
        """Return places of the texts that share a word with *query*, best first, ties in their order."""
        scores = self.scores(query)
        order = np.argsort(-scores, kind="stable")[:count]
        return order[scores[order] > 0].tolist()  # type: ignore[no-any-return]


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


class RankingPrompt(NamedTuple):
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

    def __init__(self, graph: KnowledgeGraph, options: PromptedModel) -> None:
        self.graph, self.options = graph, options
        self.texts = GraphTexts(graph, options.descriptions)
        self._all_entities = tuple(range(len(self.texts.names)))
        self.head, self.relation, self.tail = graph.columns(graph.training)
        self.gold_listed = self.drawn = 0

    @cached_property
    def entities(self) -> Bm25:
        return Bm25([f"{name} {said}" for name, said in zip(self.texts.names, self.texts.descriptions, strict=True)])

    @cached_property
    def triples(self) -> Bm25:
        """Index of the training triples in words, which serves both directions."""
        columns = zip(self.head.tolist(), self.relation.tolist(), self.tail.tolist(), strict=True)
        names = self.texts.names
        return Bm25([f"{self._question(h, r, False)} {LEAD} {names[t]}." for h, r, t in columns])

    def make(self, links: Links) -> list[RankingPrompt]:
        columns = zip(*(c.tolist() for c in (links.given, links.relation, links.inverse, links.gold)), strict=True)
        if self.options.wording == "autokg":
            self.gold_listed += len(links)
            return [self._to_fill(subject, relation, inverse) for subject, relation, inverse, _ in columns]
        return [self._shown(*question) for question in columns]

    @cached_property
    def _examples(self) -> list[list[tuple[int, int]]]:
        return examples_of_relations(self.graph, self.options.demonstrations, self.options.seed)

    def _to_fill(self, subject: int, relation: int, inverse: bool) -> RankingPrompt:
        """Return AutoKG's prompt; no demonstration mentions the entity of the query."""
        others = [ends for ends in self._examples[relation] if subject not in ends][: self.options.demonstrations]
        lines = []
        for ends in others:
            end, answer = reversed(ends) if inverse else ends
            query, name = self._masked(end, relation, inverse, space=" "), self.texts.names[answer]
            lines.append(f"{query}{LEAD} {name}{FILLED} {name}.")
        lines.append(self._masked(subject, relation, inverse))
        return RankingPrompt("\n".join(lines), self._all_entities, end="," if others else ".")

    def _masked(self, subject: int, relation: int, inverse: bool, space: str = "") -> str:
        """Word a query with [MASK]. :param space: before the quotation mark; only published demonstrations have one."""
        name, link = self.texts.names[subject], self.texts.relations[relation]
        triple = f"([MASK], {link}, {name})" if inverse else f"({name}, {link}, [MASK])"
        return (
            f"predict the {'head' if inverse else 'tail'} entity [MASK] from the given {triple} by completing the "
            f'sentence "{self._question(subject, relation, inverse)} {LEAD}{space}".'
        )

    def _shown(self, subject: int, relation: int, inverse: bool, gold: int) -> RankingPrompt:
        options, question = self.options, self._question(subject, relation, inverse)
        wanted = options.demonstrations and options.demonstrations + 1  # one more, as the triple asked for is left out
        if options.candidates_by == "triples":
            wanted = max(wanted, options.candidates + FURTHER_TRIPLES)
        triples = self.triples.best(question, wanted) if wanted else []
        candidates = self._candidates(subject, relation, inverse, triples)
        self.gold_listed += gold in candidates
        if options.gold_among_candidates and gold not in candidates:
            candidates[-1] = gold
        candidates = np.random.default_rng([options.seed, subject, relation, inverse]).permutation(candidates).tolist()
        asked, answer = ("tail", "head") if inverse else ("head", "tail")
        names = ", ".join(dict.fromkeys(self.texts.names[place] for place in candidates))
        lines = [f"Given {asked} entity and relation, predict the {answer} entity from the candidates: {names}."]
        lines += self._demonstrations((subject, relation, gold), inverse, triples)
        return RankingPrompt("\n".join([*lines, question]), tuple(candidates))

    def _question(self, subject: int, relation: int, inverse: bool) -> str:
        name, link = self.texts.names[subject], self.texts.relations[relation]
        return f"{name} is the {link} of what?" if inverse else f"what is the {link} of {name}?"

    def _candidates(self, subject: int, relation: int, inverse: bool, triples: Sequence[int]) -> list[int]:
        """Return candidates, best first; the rest are drawn by the seed if BM25 returns too few."""
        texts, wanted = self.texts, min(self.options.candidates, len(self.texts.names))
        if self.options.candidates_by == "triples":
            _, answers = self._ends(inverse)
            candidates = list(dict.fromkeys(answers[triples].tolist()))[:wanted]
        else:
            query = f"{texts.relations[relation]} {texts.names[subject]} {texts.descriptions[subject]}"
            candidates = self.entities.best(query, wanted)
        missing = wanted - len(candidates)
        self.drawn += missing
        if missing:
            random = np.random.default_rng([self.options.seed, subject, relation, inverse])
            others = np.setdiff1d(np.arange(len(texts.names)), candidates)
            candidates += random.choice(others, missing, replace=False).tolist()
        return candidates

    def _ends(self, inverse: bool) -> tuple[Places, Places]:
        return (self.tail, self.head) if inverse else (self.head, self.tail)

    def _demonstrations(self, query: tuple[int, int, int], inverse: bool, triples: Sequence[int]) -> Iterator[str]:
        subjects, answers = self._ends(inverse)
        columns = (column[triples].tolist() for column in (subjects, self.relation, answers))
        others = [triple for triple in zip(*columns, strict=True) if triple != query]
        for subject, relation, answer in others[: self.options.demonstrations]:
            name, answer_name = self.texts.names[subject], self.texts.names[answer]
            why = rationale(self.texts.descriptions[subject], name, answer_name)
            yield " ".join([self._question(subject, relation, inverse), *why, f"{LEAD} {answer_name}."])


def rationale(description: str, subject: str, answer: str) -> list[str]:
    """Return the sentences of a description that name the answer, after the first that names the entity.

    If none names the answer, return the first sentence.
    """
    sentences = [part.rstrip(".") + "." for part in re.split(r"(?<=[.!?])\s+", description.strip()) if part]
    naming = [sentence for sentence in sentences if answer.casefold() in sentence.casefold()]
    if not naming:
        return sentences[:1]
    about = [sentence for sentence in sentences if subject.casefold() in sentence.casefold()][:1]
    return list(dict.fromkeys([*about, *naming]))


class Local:
    """A local language model that scores candidates.

    Scores are log-likelihoods in nats of " NAME." after "… The answer is". The full stop (a comma after AutoKG's
    demonstrations) belongs to the answer: without it "dog" could never be less probable than "dog house".
    """

    scoring = Scoring("log-likelihood", "nats")

    def __init__(self, model: Model) -> None:
        if model.attention is not Attention.CAUSAL:
            raise BadInput(
                f"a prompted model must be causal; '{model.identity.name}' is {model.attention}: try knn-kge"
            )
        self.model, self.identity, self.tokenizer = model, model.identity, model.tokenizer
        self.bos = resolve_bos(model.tokenizer, Bos.AUTO)
        self.budget = Budget(None, model.device)
        self.prompts = 0

    def scores(self, shown: Sequence[RankingPrompt], names: Sequence[str]) -> list[Scores | str]:
        """Return the scores of each query's candidates in nats, or the reason for having none.

        :param names: of all entities.
        """
        scores = {prompt: self._score(prompt, names) for prompt in dict.fromkeys(shown)}
        self.prompts += len(scores)
        return [scores[prompt] for prompt in shown]

    def text(self, shown: RankingPrompt) -> str:
        return f"{shown.prompt} {LEAD}"

    def _score(self, shown: RankingPrompt, names: Sequence[str]) -> Scores | str:
        [prompt] = encode_prompts(self.tokenizer, [self.text(shown)], self.bos)
        texts = [f"{names[place]}{shown.end}" for place in shown.candidates]
        answers = name_tokens(self.tokenizer, texts, leading_space=True)
        window, longest = self.model.max_tokens, len(prompt) + max(map(len, answers))
        if window is not None and longest > window:
            return f"prompt and answer have {longest} tokens, more than the model's window of {window}"
        if self.model.refuses_cache(longest) is None:  # the prompt is read once
            [searched] = search(
                self.model, AnswerTrie(answers), [SearchQuestion(prompt, [0])], SearchPlan(prune=False), self.budget
            )
            scores = np.array(np.nan if searched.result.scores is None else searched.result.scores, dtype=np.float64)
        else:
            each = causal_log_probs(self.model, [[*prompt, *answer] for answer in answers], self.budget)
            scores = np.array([log_probs[len(prompt) :].astype(np.float64).sum() for log_probs in each])
        return scores if np.isfinite(scores).all() else NOT_A_NUMBER

    def circumstances(self) -> Facts:
        refusal = self.model.refuses_cache()
        return {
            "prompts": self.prompts,
            "halvings": self.budget.halvings,
            "engine": "prompt read once" if refusal is None else f"prompt read per candidate, because {refusal}",
        }


class SampledServer:
    """A server's language model that is sampled.

    Scores are votes: how many replies named a candidate, less i / n where reply i of n (from 0) was the first.
    """

    scoring = Scoring("votes", "score")

    def __init__(self, server: ChatServer, options: PromptedModel) -> None:
        self.server, self.options, self.identity, self.tokenizer = server, options, server.identity, None
        self.counts = Counter(replies=0, replies_naming_no_candidate=0, calls_failed=0)

    def scores(self, shown: Sequence[RankingPrompt], names: Sequence[str]) -> list[Scores | str]:
        """Return the votes for each query's candidates, −inf for unnamed ones; or the reason for having none.

        :param names: of all entities.
        :raises RunFailed: no further call can succeed.
        """
        options = self.options
        limits: dict[str, Any] = {"n": options.samples, "max_tokens": options.reply_tokens, "seed": options.seed}
        temperature = options.sampling_temperature
        replies = self.server.ask(
            [ChatRequest(self.text(prompt), temperature=temperature, **limits) for prompt in shown]
        )
        return [self._votes(prompt, reply, names) for prompt, reply in zip(shown, replies, strict=True)]

    def text(self, shown: RankingPrompt) -> str:
        return f"{shown.prompt}\n{REQUEST.format('candidate' if self.options.wording == 'lambdakg' else 'entity')}"

    def _votes(self, shown: RankingPrompt, reply: ChatReply, names: Sequence[str]) -> Scores | str:
        if reply.fault is not None:
            self.counts["calls_failed"] += 1
            return reply.fault
        keys = [answer_key(names[place]) for place in shown.candidates]
        replies = [parsed(text) for text in reply.texts]
        self.counts.update(
            replies=len(replies), replies_naming_no_candidate=sum(answer not in keys for answer in replies)
        )
        votes = {
            answer: replies.count(answer) - replies.index(answer) / len(replies) for answer in dict.fromkeys(replies)
        }
        return np.array([votes.get(key, -np.inf) for key in keys])

    def circumstances(self) -> Facts:
        return {**self.counts, **self.server.circumstances()}


def parsed(reply: str) -> str:
    """Normalise a reply for comparison with candidates: case, spaces and quotation marks.

    Words that demonstrations use before and after an answer are removed.
    """
    text = reply.strip().partition(FILLED)[0]
    return answer_key(text[len(LEAD) :] if text.casefold().startswith(LEAD.casefold()) else text)


class Predictor(base.Predictor):
    """A predictor without training. :raises BadInput: no such model or server, or a model that is not causal."""

    scoring = Local.scoring
    options: PromptedModel

    def __init__(
        self, graph: KnowledgeGraph, options: PromptedModel, source: Path | None, device: torch.device
    ) -> None:
        super().__init__(graph, options, source, device)
        self.network = nn.Module()  # nothing is learnt
        self.prompts = Prompts(graph, options)
        self.answerer = _open(options, device)
        self.is_served = isinstance(self.answerer, SampledServer)
        self.scoring = self.answerer.scoring  # of this kind it depends on the options
        self.identity, self.tokenizer = self.answerer.identity, self.answerer.tokenizer
        self.questions = 0
        self._last: tuple[Links, list[RankingPrompt]] | None = None

    @classmethod
    def check(cls, options: PromptedModel) -> None:
        """:raises BadInput: no such local model."""
        if options.server is None:
            load_config(options.weights)

    def train(self, folder: Path, progress: Progress) -> Facts:
        return {"why": "nothing to train"}

    def load(self, folder: Path) -> None:
        """Check the model. :raises BadInput: it is no longer the one that the folder was made with."""
        weights = read_manifest(folder)["identity"]["weights"]
        if weights["content_hash"] != self.identity.content_hash:
            raise BadInput(
                f"'{weights['name']}' has changed since {folder} was made: make another folder, fathom kgc train "
                f"--model prompted --weights {weights['name']}"
            )

    def prepare_in(self, artifacts: Path, progress: Progress) -> None:
        """Keep a server's replies in the run."""
        if isinstance(self.answerer, SampledServer):
            self.answerer.server.keep_answers(artifacts)

    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
        """Rank among all entities, as far as the candidates go. Others have no scores, so *keep_scores* has no effect.

        :raises RunFailed: a server that no further call can reach, or no memory.
        """
        shown = self._shown(links)
        self.questions += len(shown)
        scores = self.answerer.scores(shown, self.prompts.texts.names)
        columns = zip(shown, scores, links.gold.tolist(), links.known, strict=True)
        return [
            self._result(prompt, values, gold, set(filtered.tolist()), top)
            for prompt, values, gold, filtered in columns
        ]

    def as_read(self, links: Links) -> list[str]:
        return [self.answerer.text(shown) for shown in self._shown(links)]

    def _shown(self, links: Links) -> list[RankingPrompt]:
        """Return the prompts, made once although ranking and recording both need them."""
        if self._last is None or self._last[0] is not links:
            self._last = links, self.prompts.make(links)
        return self._last[1]

    def _result(
        self, shown: RankingPrompt, scores: Scores | str, gold: int, filtered: set[int], count: int
    ) -> RankResult:
        if isinstance(scores, str):
            return RankResult(None, [], [], [], unscored=scores)
        left_out = [at for at, place in enumerate(shown.candidates) if place in filtered]
        named = scores > -np.inf
        ids = self.graph.entities.column("id").take(list(shown.candidates)).to_pylist()
        best = [at for at in top(scores, ids, count) if named[at]]
        result = RankResult(None, [], [], [(shown.candidates[at], float(scores[at])) for at in best])
        at = shown.candidates.index(gold) if gold in shown.candidates else None
        if at is not None and named[at]:
            result.ranks = rank_best(scores, [at], left_out)
            result.gold_scores, result.gold_ranks = [float(scores[at])], unfiltered_ranks(scores, [at])
        else:
            named[left_out] = False
            result.above = max(ANSWERS, int(named.sum()))
        return result

    def notes(self) -> list[str]:
        advantage = ["the gold answer is always among the candidates, an advantage over other predictors"]
        return [*self.prompts.texts.notes, *(advantage if self.options.gold_among_candidates else [])]

    def circumstances(self) -> Facts:
        return {
            "questions": self.questions,
            "right_answer_among_candidates": self.prompts.gold_listed,
            "candidates_drawn_at_random": self.prompts.drawn,
            **self.answerer.circumstances(),
        }


def _open(options: PromptedModel, device: torch.device) -> Local | SampledServer:
    if options.server is None:
        return Local(load(options.weights, dtype=options.dtype, device=str(device)))
    return SampledServer(options.connect(options.weights), options)
