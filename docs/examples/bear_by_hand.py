"""BEAR by hand: from a template to a claim, with nothing hidden.

    python docs/examples/bear_by_hand.py MODEL [FACTS]

evaluates a causal model on capitals of the embedded data set, one statement at a time, and then asks
``fathom.probe("statement", …)`` for the same. Both give the same scores; Fathom shares what statements have in common,
so it is many times as fast. The method is that of Wiland et al. (NAACL Findings 2024).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import fathom
from fathom.results.claims import Claim, Contrast, decide, sentences
from fathom.results.estimates import difference, mean
from fathom.results.samples import Sample

RELATION = "capital"


def questions(limit: int) -> fathom.QuerySet:
    """1. Facts become queries: a subject, a relation, the right answers, and the answer space to choose from."""
    data = fathom.read_data("geography")
    return replace(data, queries=tuple(query for query in data.queries if query.relation == RELATION)[:limit])


def statement_log_likelihood(network: Any, tokenizer: Any, text: str) -> float:
    """3. Statements get scores: the sum of the log-probabilities of all tokens, in nats, after a first token.

    The first token is the tokenizer's BOS token, or else its EOS token, so that the text's own first token is scored.
    """
    first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    ids = torch.tensor([[first, *tokenizer(text, add_special_tokens=False)["input_ids"]]])
    with torch.no_grad():
        log_probs = torch.log_softmax(network(input_ids=ids).logits[0, :-1].float(), dim=-1)
    return float(log_probs.gather(1, ids[0, 1:, None]).double().sum())


def scores_of(
    network: Any, tokenizer: Any, query: fathom.Query, space: fathom.CandidateSet, template: fathom.Template
) -> np.ndarray:
    """2. Queries become prompts: the template with subject and candidate filled in. Returns a score per candidate."""
    texts = [template.fill(query.subject, name).text for name in space.names]
    return np.array([statement_log_likelihood(network, tokenizer, text) for text in texts])


def ranks_of(query: fathom.Query, space: fathom.CandidateSet, scores: np.ndarray) -> tuple[int, int]:
    """4. Scores become ranks of the best right answer: 1 + the wrong candidates above it, then with equal ones."""
    right, known = np.isin(space.ids, query.gold), np.isin(space.ids, query.known)
    wrong, best = scores[~right & ~known], scores[right].max()
    return 1 + int((wrong > best).sum()), 1 + int((wrong >= best).sum())


def most_frequent(queries: Sequence[fathom.Query]) -> str:
    """5. The control: the best answer to give to all queries alike, without a look at the question."""
    answers = [answer for query in queries for answer in query.gold]
    return max(set(answers), key=answers.count)


def conclude(queries: Sequence[fathom.Query], ranks: list[tuple[int, int]]) -> list[str]:
    """6. Ranks become an estimate, and the estimate a claim: is the model better than its control, for other facts?"""
    correct = np.array([1 / lowest if highest == 1 else 0.0 for highest, lowest in ranks])  # of equals, one is drawn
    answer = most_frequent(queries)
    control = np.array([float(answer in query.gold) for query in queries])
    facts = Sample("fact", np.arange(len(queries)))
    accuracy = mean(correct, facts, "accuracy by hand")
    gain = difference(correct, control, facts, "accuracy by hand, less the majority's")
    decisions = decide({"gain": Claim("the model beats the most frequent answer", (Contrast("gain", gain, 1),))})
    return [f"accuracy {accuracy}", *sentences(list(decisions.values()))]


def main(model: str, limit: int = 10) -> float:
    """Evaluate a model by hand and by Fathom. :returns: the largest difference of a score, in nats."""
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model)
    data = questions(limit)
    queries, space = data.queries, data.candidates[data.queries[0].candidates]
    template = data.relations[RELATION].templates[0]
    by_hand = {query.id: scores_of(network, tokenizer, query, space, template) for query in queries}
    ranks = [ranks_of(query, space, by_hand[query.id]) for query in queries]
    print("\n".join(conclude(queries, ranks)))

    result = fathom.probe("statement", model, data, templates=(0,))
    rows = {row["query_id"]: row for row in result.table().to_pylist() if row["scoring"] == "sum/full"}
    assert [(rows[query.id]["rank_optimistic"], rows[query.id]["rank_pessimistic"]) for query in queries] == ranks
    largest = max(float(np.abs(by_hand[id_] - rows[id_]["scores"]).max()) for id_ in by_hand)
    print(f"the same {len(ranks)} ranks by fathom.probe; scores differ by up to {largest:.1e} nats")
    return largest


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
