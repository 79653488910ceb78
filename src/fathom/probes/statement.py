"""The statement probe (BEAR, Wiland et al. 2024): which answer makes the most likely statement?

Each candidate fills the relation's template; its score is the statement's log-likelihood (causal models) or
pseudo-log-likelihood (masked models). Relations without templates use few-shot lines from the graph. In large answer
spaces an exact search finds the rank (:mod:`fathom.engine.scoring.search`). See docs/methods/statement.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fathom.base.errors import BadInput, refuse
from fathom.data.prompts.wording import FewShotWording, SpokenWording, TemplateWording, Wording
from fathom.data.queries import CandidateSet, Query, QuerySet, unrankable
from fathom.data.templates import Prompt, Span
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.likelihoods import LikelihoodServer
from fathom.engine.scoring.masked import Pll
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.rows import Columns, PromptedQuery, result_columns, score_columns, unscored
from fathom.engine.scoring.search import SEARCHED_TOGETHER, SearchPlan, SearchQuestion, search, token_counts
from fathom.engine.scoring.seq2seq import form_for
from fathom.engine.scoring.statements import (
    Likelihood,
    Reduction,
    Score,
    ScoredStatement,
    StatementScores,
    StatementScoring,
    align_scored,
    encode_statements,
    is_cut,
    reduce_all,
    score_encoded,
    score_statements,
    text_likelihoods,
    token_scores,
)
from fathom.engine.scoring.tokens import (
    SCORED_TEXT,
    Bos,
    Continuation,
    Role,
    Tokens,
    align_answers,
    encode_causal,
    encode_continuations,
    resolve_bos,
    resolve_first,
)
from fathom.engine.scoring.trie import AnswerTrie
from fathom.engine.scoring.walk import SearchResult
from fathom.probes.base import (
    FEW_SHOT_OPTIONS,
    NO_LINES,
    Answered,
    Facts,
    Shard,
    ShardedProbe,
    few_shot_lines,
    shards_of,
    too_long,
)
from fathom.probes.models import chat_template
from fathom.probes.options import StatementOptions
from fathom.store.predictions import KEEP_SCORES_UP_TO, NO_TEMPLATE, Scoring

CHECKED = 8
"""Candidates per query whose whole statements are tokenised, to check the tokens that the search scores."""


class _SearchPrompt(NamedTuple):
    """:param prompt: token ids of what stands before the answer. :param context: how many of them never count."""

    query: Query
    prompt: list[int]
    context: int


class Space:
    """A candidate set as continuations of a prompt."""

    def __init__(self, candidates: CandidateSet, continuations: list[Continuation]) -> None:
        self.candidates, self.continuations = candidates, continuations

    @cached_property
    def whole(self) -> AnswerTrie:
        return AnswerTrie([continuation.ids for continuation in self.continuations], self.candidates.ids)

    @cached_property
    def bare(self) -> AnswerTrie:
        return AnswerTrie(
            [continuation.ids[: continuation.answer_tokens] for continuation in self.continuations], self.candidates.ids
        )


class Searcher:
    """Exact search for ranks with a causal model.

    :param ways: each needs its own passes, as each has its own bound.
    """

    def __init__(
        self, options: StatementOptions, model: Model, bos: int | None, ways: Sequence[StatementScoring], budget: Budget
    ) -> None:
        self.options, self.model, self.bos, self.ways, self.budget = options, model, bos, ways, budget
        self.spaces: dict[tuple[str, str, str], Space | None] = {}

    def rank(
        self, wording: Wording, queries: Sequence[Query], candidates: CandidateSet
    ) -> tuple[dict[str, list[Columns]], list[Query]]:
        """Rank the gold answers of *queries*.

        :returns: columns per query and scoring; and the queries whose statements the search cannot score token by
            token (a token spans prompt and answer, or the subject follows the answer), or that are longer than the
            model's cache is right for.
        """
        prompted_in: dict[int, tuple[Space, list[_SearchPrompt]]] = {}
        refused = []
        for query in queries:
            prepared = self._prepare(wording, query, candidates)
            if prepared is None or self._refuses(*prepared):
                refused.append(query)
            else:
                space, prompted = prepared
                prompted_in.setdefault(id(space), (space, []))[1].append(prompted)
        answers: dict[str, list[Columns]] = {}
        for space, together in prompted_in.values():
            for way in self.ways:
                for query_id, answer in self._search(space, together, way).items():
                    answers.setdefault(query_id, []).append(answer)
        return answers, refused

    def _refuses(self, space: Space, asked: _SearchPrompt) -> bool:
        longest = len(asked.prompt) + int(space.whole.longest.max())
        return self.model.refuses_cache(longest) is not None

    def _prepare(self, wording: Wording, query: Query, candidates: CandidateSet) -> tuple[Space, _SearchPrompt] | None:
        sample = np.random.default_rng(0).integers(len(candidates), size=CHECKED).tolist()
        places = [*(candidates.position[id_] for id_ in query.gold), *sample]
        prompts = wording.statements(query, [candidates.names[place] for place in places])
        before = _before(prompts[0])
        if before is None:
            return None
        space = self._space(prompts[0], before, candidates)
        if space is None:
            return None
        context = Prompt(prompts[0].text[:before], (), (), prompts[0].context)
        [prompt] = encode_causal(self.model.tokenizer, [context], self.bos)
        for place, tokens in zip(places, encode_causal(self.model.tokenizer, prompts, self.bos), strict=True):
            if tokens.ids.tolist() != [*prompt.ids.tolist(), *space.continuations[place].ids]:
                return None
        context_tokens = int((prompt.roles == Role.SPECIAL).sum())
        return space, _SearchPrompt(query, prompt.ids.tolist(), max(1, context_tokens))

    def _space(self, prompt: Prompt, before: int, candidates: CandidateSet) -> Space | None:
        """Tokenise the candidates after the prompt's last line, once for all similar prompts."""
        [answer] = prompt.answer
        lead, tail = prompt.text[before : answer.start], prompt.text[answer.end :]
        key = candidates.name, lead, tail
        if key not in self.spaces:
            context = prompt.text[:before].rpartition("\n")[2]
            start = len(context) + len(lead)
            prompts = (
                Prompt(context + lead + name + tail, (), (Span(start, start + len(name)),)) for name in candidates.names
            )
            ends = encode_continuations(self.model.tokenizer, context, prompts) if context else None
            self.spaces[key] = None if ends is None else Space(candidates, ends)
        return self.spaces[key]

    def _search(self, space: Space, asked: Sequence[_SearchPrompt], way: StatementScoring) -> dict[str, Columns]:
        tree = space.bare if way.score is Score.ANSWER else space.whole
        longest, window = int(tree.longest.max()), self.model.max_tokens
        options = self.options
        # If all scores are recorded, all must be computed.
        prunes = options.prune and (len(tree) > KEEP_SCORES_UP_TO or options.max_rank is not None)
        plan = SearchPlan(
            options.top_k, options.max_rank, prunes, reduction=way.reduction, whole=way.score is Score.FULL
        )
        too_long = f"the longest statement has {{}} tokens, more than the model's window of {window}"
        reasons = {
            item.query.id: too_long.format(len(item.prompt) + longest)
            for item in asked
            if window is not None and len(item.prompt) + longest > window
        }
        fit = [item for item in asked if item.query.id not in reasons]
        places = space.candidates.places
        questions = [
            SearchQuestion(item.prompt, places(item.query.gold), places(item.query.known), item.context) for item in fit
        ]
        searched = search(self.model, tree, questions, plan, self.budget)
        answers = {id_: unscored(reason) for id_, reason in reasons.items()}
        for item, question, result in zip(fit, questions, searched, strict=True):
            answers[item.query.id] = _columns(space, tree, plan, question, result)
        return answers


def _before(prompt: Prompt) -> int | None:
    """Return the number of characters before the answer and its leading space; None if the subject follows it."""
    if len(prompt.answer) != 1 or any(span.start > prompt.answer[0].start for span in prompt.subject):
        return None
    return len(prompt.text[: prompt.answer[0].start].rstrip()) or None


def _columns(
    space: Space, tree: AnswerTrie, plan: SearchPlan, question: SearchQuestion, searched: SearchResult
) -> Columns:
    found, prompt = searched.result, len(question.prompt)
    row: Columns = {
        "gold_scores": found.gold_scores,
        "gold_tokens": [space.continuations[place].answer_tokens for place in question.gold],
        **token_counts(tree, question, searched),
    }
    if found.unscored is not None:
        return row | unscored(found.unscored)
    if len(tree) > KEEP_SCORES_UP_TO or plan.max_rank is not None:
        found.scores = None
    best = question.gold[int(np.argmax(found.gold_scores))]
    depth = int(tree.trie.depth[tree.terminal[best]]) + 1 + (prompt - question.context if plan.whole else 0)
    tokens: Columns = {"scored_tokens": depth, "mixed_tokens": space.continuations[best].mixed}
    return row | result_columns(found, space.candidates) | tokens


SHARD_STATEMENTS = 8192


class _Statements(NamedTuple):
    """All candidates of some queries in statements. :param tokens: None if a server scores them."""

    prompts: list[Prompt]
    tokens: list[Tokens] | None


class StatementProbe(ShardedProbe):
    """See :mod:`fathom.probes.statement`.

    :raises BadInput: templates that the relations do not have, BOS for a tokenizer without one.
    """

    def __init__(self, options: StatementOptions, model: Model, queryset: QuerySet) -> None:
        super().__init__(options, model, queryset)
        self.options = options
        self.chat = chat_template(model, options)
        self.before = "" if self.chat is None else self.chat.before_reply(options.chat_user)
        takes_bos = model.attention is Attention.CAUSAL and self.chat is None
        self.bos = _first_token(model, Bos(options.bos)) if takes_bos else None
        self.form = form_for(model, options.form)
        if model.attention is Attention.SEQ2SEQ and options.perplexity:
            raise BadInput("--perplexity: an encoder-decoder scores answers, not whole texts")
        self.ways = [StatementScoring(Reduction(r), Score(s)) for s in options.score for r in options.reduction]
        self.scorings = tuple(Scoring(way.name, "nats") for way in self.ways)
        refuse(queryset.template_faults(options.templates) + queryset.head_faults())
        bare = any(not (query.unscored or queryset.phrasings(query)) for query in queryset.queries)
        self._lines = few_shot_lines(options, queryset) if bare else None
        self._counts: Counter[str] = Counter(statements=0)

    @cached_property
    def _searcher(self) -> Searcher:
        return Searcher(self.options, self.model, self.bos, self.ways, self.budget)

    def resolved(self) -> Facts:
        whole = self.model.attention is not Attention.SEQ2SEQ and all(way.score is Score.FULL for way in self.ways)
        answers = {} if whole else SCORED_TEXT
        return super().resolved() | answers

    may_idle = (*FEW_SHOT_OPTIONS, "closing", "pll", "bos")

    def idle(self) -> Mapping[str, str]:
        causal = self.model.attention is Attention.CAUSAL
        idle = {"pll": "it concerns masked models"} if causal else {"bos": "it concerns causal models"}
        return idle | (dict.fromkeys((*FEW_SHOT_OPTIONS, "closing"), NO_LINES) if self._lines is None else {})

    def count_texts(self, shard: str) -> int:
        return sum(len(part.queries) * len(self.queryset.candidates[part.space]) for part in self._parts[shard])

    def circumstances(self) -> Facts:
        engine = {"engine": self._engine} if self.model.attention is Attention.CAUSAL else {}
        return {**self._counts, **super().circumstances(), **engine}

    @property
    def _engine(self) -> str:
        if isinstance(self.model, LikelihoodServer):
            return self.model.engine
        refusal, path = self.model.refuses_tree(), "token trie"
        if refusal is not None:
            states = self.model.refuses_states() is None
            path = f"{'states by level' if states else 'plain batches'}, because {refusal}"
        return "; ".join([path, *(f"plain where {why}" for why in self.model.refusals() if why not in path)])

    def _answered(self, shard: Shard) -> Answered:
        wording, space = self._wording(shard.template), self.queryset.candidates[shard.space]
        reasons = {
            query.id: unrankable(query, space) or (wording.refusal(query) if wording else None)
            for query in shard.queries
        }
        queries = [query for query in shard.queries if reasons[query.id] is None]
        answers: dict[str, list[Columns]] = {}
        if wording is not None and queries:
            answers = (self._searched if self._searches(shard.template, space) else self._scored)(
                wording, queries, space
            )
        likelihoods = self._likelihoods(wording, queries, space) if wording and self.options.perplexity else {}
        for query in shard.queries:
            prompt = _prompt_of(query, wording)
            asked = PromptedQuery(query, shard.template, prompt, len(space), likelihoods.get(query.id))
            yield asked, reasons[query.id] or answers[query.id]

    def _asked(self, query: Query, number: int) -> str | None:
        return _prompt_of(query, self._wording(number))

    def _tokenised(self, prompts: list[Prompt]) -> _Statements:
        if isinstance(self.model, LikelihoodServer):
            return _Statements(prompts, None)
        return _Statements(prompts, encode_statements(self.model, prompts, self.bos))

    def _wording(self, number: int) -> Wording | None:
        """Return None if no query of the shard can be phrased: each then has its reason."""
        wording: Wording | None = None
        if number != NO_TEMPLATE:
            wording = TemplateWording(self.queryset, number, self.options.capitalize)
        elif self._lines is not None:
            wording = FewShotWording(self._lines, self.options.closing)
        return wording if wording is None or not self.before else SpokenWording(wording, self.before)

    def _likelihoods(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, Likelihood]:
        texts = [wording.statements(query, [space.name_of(query.gold[0])])[0].text for query in queries]
        likelihoods = text_likelihoods(self.model, texts, self.bos, self.budget, len(self.before))
        return {query.id: likelihood for query, likelihood in zip(queries, likelihoods, strict=True)}

    def _cut(self) -> Iterator[Shard]:
        """Cut by relation, candidate set and template, so that statements of a shard share a trie."""
        for queries in self.queryset.by_relation().values():
            for name in dict.fromkeys(query.candidates for query in queries):
                space = self.queryset.candidates[name]
                for number, asked in self.queryset.by_phrasing(queries, self.options.templates).items():
                    alike = [query for query in asked if query.candidates == name]
                    size = max(1, SHARD_STATEMENTS // len(space))
                    if self._searches(number, space):
                        size = SEARCHED_TOGETHER
                    yield from shards_of(number, alike, size)

    def _searches(self, number: int, space: CandidateSet) -> bool:
        """Return whether the exact search is cheaper. Only the search caches few-shot lines, which are long."""
        is_large = len(space) > KEEP_SCORES_UP_TO or self.options.max_rank is not None
        wanted = is_large or number == NO_TEMPLATE
        return wanted and self.model.attention is Attention.CAUSAL and self.model.refuses_cache() is None

    def _searched(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, list[Columns]]:
        """Search for the ranks; score in full the queries that the search refuses."""
        answers, refused = self._searcher.rank(wording, queries, space)
        if self.options.keep_tokens:
            self._keep_searched(wording, [query for query in queries if query.id in answers], space, answers)
        return answers | (self._scored(wording, refused, space) if refused else {})

    def _scored(self, wording: Wording, queries: Sequence[Query], space: CandidateSet) -> dict[str, list[Columns]]:
        """Score all candidates of all queries; return a query's columns per scoring."""
        encoded = self._tokenised([prompt for query in queries for prompt in wording.statements(query, space.names)])
        if encoded.tokens is None:
            statements = align_scored(self._run(encoded), len(space))
        else:
            statements = self._run(encoded._replace(tokens=align_answers(encoded.tokens, len(space))))
        self._counts["statements"] += sum(item.log_probs is not None for item in statements)
        reduced = [reduce_all(statements, way, self.model.attention) for way in self.ways]
        answers = {}
        for number, query in enumerate(queries):
            part = slice(number * len(space), (number + 1) * len(space))
            answers[query.id] = [
                self._answer(query, space, statements[part], StatementScores(scores[part], counts[part]))
                for scores, counts in reduced
            ]
            if self.options.keep_tokens:
                scored = dict(enumerate(zip(encoded.prompts[part], statements[part], strict=True)))
                self._keep_tokens(query, space, answers[query.id], scored)
        return answers

    def _keep_searched(
        self, wording: Wording, queries: Sequence[Query], space: CandidateSet, answers: Mapping[str, list[Columns]]
    ) -> None:
        """Score the statements to keep, as a search has no scores of tokens."""
        places = {
            query.id: sorted({place for row in answers[query.id] for place in _kept_places(query, space, row)})
            for query in queries
        }
        prompts = [
            prompt
            for query in queries
            for prompt in wording.statements(query, [space.names[place] for place in places[query.id]])
        ]
        scored = iter(zip(prompts, self._run(self._tokenised(prompts)) if prompts else (), strict=True))
        for query in queries:
            self._keep_tokens(query, space, answers[query.id], {place: next(scored) for place in places[query.id]})

    def _keep_tokens(
        self,
        query: Query,
        space: CandidateSet,
        columns: Sequence[Columns],
        scored: Mapping[int, tuple[Prompt, ScoredStatement]],
    ) -> None:
        """Add the column ``token_log_probs``. :param scored: by place of the candidate."""
        for way, row in zip(self.ways, columns, strict=True):
            kept = []
            for place in _kept_places(query, space, row):
                prompt, statement = scored[place]
                scores = token_scores(self.model, prompt.text, statement, way.score)
                kept.append({"id": space.ids[place], **scores._asdict()})
            row["token_log_probs"] = kept or None

    def _run(self, encoded: _Statements) -> list[ScoredStatement]:
        pll = Pll(self.options.pll)
        if encoded.tokens is None:
            return score_statements(self.model, encoded.prompts, self.bos, pll, self.budget, self.form)
        return score_encoded(self.model, encoded.tokens, pll, self.budget, self.form)

    def _answer(
        self, query: Query, space: CandidateSet, statements: Sequence[ScoredStatement], reduced: StatementScores
    ) -> Columns:
        return score_columns(
            query,
            space,
            reduced.scores,
            [statements[place].tokens.answer_tokens for place in space.places(query.gold)],
            reduced.counts.tolist(),
            [item.tokens.mixed for item in statements],
            top_k=self.options.top_k,
            max_rank=self.options.max_rank,  # the same rule for all templates
            fault=self._fault(statements, reduced),
            what="statements",
        )

    def _fault(self, statements: Sequence[ScoredStatement], reduced: StatementScores) -> str | None:
        for item, score, count in zip(statements, reduced.scores, reduced.counts, strict=True):
            if item.fault is not None:
                return item.fault
            if item.log_probs is None:
                return too_long("a statement", len(item.tokens.ids), self.model)
            if self.model.attention is Attention.CAUSAL and is_cut(item.tokens):
                return "an answer comes first, and its first token has nothing before it to be scored by (--bos auto)"
            if self.model.lacks_first and count and np.isnan(score):
                return "the server gives no log-probability of a statement's first token, which is scored"
        if not reduced.counts.all():
            return "no token of a statement can be scored (a first token needs something before it: --bos)"
        return None


def _prompt_of(query: Query, wording: Wording | None) -> str | None:
    return wording.question(query) if wording and wording.refusal(query) is None else None


def _first_token(model: Model, policy: Bos) -> int | None:
    """Return the token before a statement. Of servers, which may take texts, it can be BOS alone."""
    resolve = resolve_bos if isinstance(model, LikelihoodServer) else resolve_first
    return resolve(model.tokenizer, policy)


def _kept_places(query: Query, space: CandidateSet, row: Columns) -> list[int]:
    """Return the places of the best gold answer and of the first answer, once if they are the same."""
    if row.get("unscored") is not None:
        return []
    gold = space.places(query.gold)[int(np.argmax(row["gold_scores"]))]
    return list(dict.fromkeys([gold, *space.places(row["top_ids"][:1])]))
