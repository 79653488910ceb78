"""An untrained language model that is shown 100 candidates and five similar triples, and gives its ten best answers.

After LambdaKG (Xie et al. 2023; Sakai et al. 2024, appendices A.2 and B). A local model is not sampled: each candidate
is scored by the log-likelihood of "… The answer is CANDIDATE." after the prompt, so the order of all candidates is
exact. A server's model is sampled; its answers are ranked by frequency, and an entity that it never names has no rank.

In AutoKG's wording (``--wording autokg``) every entity is a candidate, and nothing is retrieved.

Candidates rank before all other entities, so a gold answer's rank among them is its rank among all. One that is not a
candidate is only known to be lower. See docs/methods/link-prediction.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from fathom.data.graph.links import Links
from fathom.data.knowledge import KnowledgeGraph
from fathom.errors import BadInput
from fathom.links import base
from fathom.links.base import NOT_A_NUMBER
from fathom.links.folder import read_manifest
from fathom.links.options import Prompted
from fathom.links.prompted_text import FILLED, LEAD, Prompts, Shown
from fathom.models.base import Attention, Model
from fathom.models.generation import encode_prompts
from fathom.models.loading import load
from fathom.models.server import ChatReply, ChatRequest, ChatServer
from fathom.probes.base import Facts
from fathom.progress import Progress
from fathom.scoring.answers import answer_key
from fathom.scoring.causal import causal_log_probs
from fathom.scoring.memory import Budget
from fathom.scoring.rows import RankResult, rank_best, top, unfiltered_ranks
from fathom.scoring.search import SearchPlan, SearchQuestion, search
from fathom.scoring.tokens import Bos, name_tokens, resolve_bos
from fathom.scoring.trie import AnswerTrie
from fathom.store.predictions import Scoring

ANSWERS = 10
"""A right answer that is not given is a miss up to here."""
REQUEST = "Reply with the name of one {} and nothing else."

Scores = NDArray[np.float64]


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

    def scores(self, shown: Sequence[Shown], names: Sequence[str]) -> list[Scores | str]:
        """Return the scores of each query's candidates in nats, or the reason for having none.

        :param names: of all entities.
        """
        scores = {one: self._score(one, names) for one in dict.fromkeys(shown)}
        self.prompts += len(scores)
        return [scores[one] for one in shown]

    def text(self, shown: Shown) -> str:
        """Return the prompt."""
        return f"{shown.prompt} {LEAD}"

    def _score(self, shown: Shown, names: Sequence[str]) -> Scores | str:
        [prompt] = encode_prompts(self.tokenizer, [self.text(shown)], self.bos)
        texts = [f"{names[place]}{shown.end}" for place in shown.candidates]
        answers = name_tokens(self.tokenizer, texts, leading_space=True)
        window, longest = self.model.max_tokens, len(prompt) + max(map(len, answers))
        if window is not None and longest > window:
            return f"prompt and answer have {longest} tokens, more than the model's window of {window}"
        if self.model.refuses_cache() is None:  # the prompt is read once
            [one] = search(
                self.model, AnswerTrie(answers), [SearchQuestion(prompt, [0])], SearchPlan(prune=False), self.budget
            )
            scores = np.array(np.nan if one.result.scores is None else one.result.scores, dtype=np.float64)
        else:
            each = causal_log_probs(self.model, [[*prompt, *answer] for answer in answers], self.budget)
            scores = np.array([one[len(prompt) :].astype(np.float64).sum() for one in each])
        return scores if np.isfinite(scores).all() else NOT_A_NUMBER

    def circumstances(self) -> Facts:
        """Return the number of distinct prompts, and how they were read."""
        refusal = self.model.refuses_cache()
        return {
            "prompts": self.prompts,
            "halvings": self.budget.halvings,
            "engine": "prompt read once" if refusal is None else f"prompt read per candidate, because {refusal}",
        }


class Sampled:
    """A server's language model that is sampled.

    Scores are votes: how many replies named a candidate, less i / n where reply i of n (from 0) was the first.
    """

    scoring = Scoring("votes", "score")

    def __init__(self, server: ChatServer, options: Prompted) -> None:
        self.server, self.options, self.identity, self.tokenizer = server, options, server.identity, None
        self.counts = Counter(replies=0, replies_naming_no_candidate=0, calls_failed=0)

    def scores(self, shown: Sequence[Shown], names: Sequence[str]) -> list[Scores | str]:
        """Return the votes for each query's candidates, −inf for unnamed ones; or the reason for having none.

        :param names: of all entities.
        :raises RunFailed: no further call can succeed.
        """
        options = self.options
        limits: dict[str, Any] = {"n": options.samples, "max_tokens": options.reply_tokens, "seed": options.seed}
        temperature = options.sampling_temperature
        replies = self.server.ask([ChatRequest(self.text(one), temperature=temperature, **limits) for one in shown])
        return [self._votes(one, reply, names) for one, reply in zip(shown, replies, strict=True)]

    def text(self, shown: Shown) -> str:
        """Return the message to send."""
        return f"{shown.prompt}\n{REQUEST.format('candidate' if self.options.wording == 'lambdakg' else 'entity')}"

    def _votes(self, shown: Shown, reply: ChatReply, names: Sequence[str]) -> Scores | str:
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
        """Return counts of the replies in this session and in the journal."""
        return {**self.counts, **self.server.circumstances()}


def parsed(reply: str) -> str:
    """Normalise a reply for comparison with candidates: case, spaces and quotation marks.

    Words that demonstrations use before and after an answer are removed.
    """
    text = reply.strip().partition(FILLED)[0]
    return answer_key(text[len(LEAD) :] if text.casefold().startswith(LEAD.casefold()) else text)


class Predictor(base.Predictor):
    """See :class:`fathom.links.base.Predictor`.

    :raises BadInput: no such model or server, or a model that is not causal.
    """

    scoring = Local.scoring
    options: Prompted

    def __init__(self, graph: KnowledgeGraph, options: Prompted, source: Path | None, device: torch.device) -> None:
        super().__init__(graph, options, source, device)
        self.network = nn.Module()  # nothing is learnt
        self.prompts = Prompts(graph, options)
        self.answerer = _open(options, device)
        self.is_served = isinstance(self.answerer, Sampled)
        self.scoring = self.answerer.scoring  # of this kind it depends on the options
        self.identity, self.tokenizer = self.answerer.identity, self.answerer.tokenizer
        self.questions = 0
        self._last: tuple[Links, list[Shown]] | None = None

    def train(self, folder: Path, progress: Progress) -> Facts:
        """Learn nothing: the folder records the model and the options."""
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
        if isinstance(self.answerer, Sampled):
            self.answerer.server.keep_answers(artifacts)

    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[RankResult]:
        """Rank among all entities, as far as the candidates go. Others have no scores, so *keep_scores* has no effect.

        :raises RunFailed: a server that no further call can reach, or no memory.
        """
        shown = self._shown(links)
        self.questions += len(shown)
        scores = self.answerer.scores(shown, self.prompts.texts.names)
        columns = zip(shown, scores, links.gold.tolist(), links.known, strict=True)
        return [self._result(one, values, gold, set(known.tolist()), top) for one, values, gold, known in columns]

    def as_read(self, links: Links) -> list[str]:
        """Return the prompts."""
        return [self.answerer.text(shown) for shown in self._shown(links)]

    def _shown(self, links: Links) -> list[Shown]:
        """Return the prompts, made once although ranking and recording both need them."""
        if self._last is None or self._last[0] is not links:
            self._last = links, self.prompts.make(links)
        return self._last[1]

    def _result(self, shown: Shown, scores: Scores | str, gold: int, known: set[int], count: int) -> RankResult:
        if isinstance(scores, str):
            return RankResult(None, [], [], [], unscored=scores)
        left_out = [at for at, place in enumerate(shown.candidates) if place in known]
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
        """Return missing texts, and whether the gold answer is always a candidate."""
        advantage = ["the gold answer is always among the candidates, an advantage over other predictors"]
        return [*self.prompts.texts.notes, *(advantage if self.options.gold_among_candidates else [])]

    def circumstances(self) -> Facts:
        """Return counts on the candidates and on the model's calls."""
        return {
            "questions": self.questions,
            "right_answer_among_candidates": self.prompts.gold_listed,
            "candidates_drawn_at_random": self.prompts.drawn,
            **self.answerer.circumstances(),
        }


def _open(options: Prompted, device: torch.device) -> Local | Sampled:
    if options.server is None:
        return Local(load(options.weights, dtype=options.dtype, device=str(device)))
    return Sampled(options.connect(options.weights), options)
