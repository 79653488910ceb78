"""Recurrent and hybrid models: a shared beginning run once, against plain batches, on one relation of BEAR.

    python benchmarks/states.py --data BEAR --tokenizer FOLDER_OF_GPT2S_TOKENIZER [--queries 4] [--rounds 3]

Models have random weights: a Mamba of 768 and a Jamba of 512 dimensions. Both ways run in turns in one process; the
times are of the processor, so that other work on the machine counts less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median
from unittest.mock import patch

import numpy as np
import torch
from transformers import (
    GPT2TokenizerFast,
    JambaConfig,
    JambaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    PreTrainedModel,
)

import fathom
from fathom.models.base import Model
from fathom.scoring import causal
from fathom.scoring.levels import by_states
from fathom.scoring.memory import Budget
from fathom.scoring.tokens import encode_causal
from fathom.scoring.trie import Trie, build_trie


def main() -> None:
    said = argparse.ArgumentParser(description="States by level against plain batches.")
    said.add_argument("--data", required=True, help="BEAR's folder")
    said.add_argument("--tokenizer", required=True, help="folder of GPT-2's tokenizer")
    said.add_argument("--queries", type=int, default=4)
    said.add_argument("--rounds", type=int, default=3)
    given = said.parse_args()
    tokenizer = GPT2TokenizerFast.from_pretrained(given.tokenizer)
    sequences = list(statements(given.data, tokenizer, given.queries))
    trie = build_trie(sequences)
    tokens, nodes = sum(map(len, sequences)), len(trie.inner)
    print(f"{len(sequences)} statements, {tokens} tokens, {nodes} inner nodes: {tokens / nodes:.1f} tokens for a node")
    print("| model | plain batches, s | states, s | ratio | largest difference, nats |\n|---|---:|---:|---:|---:|")
    for name, make in MODELS.items():
        torch.manual_seed(0)
        model = fathom.wrap_model(make(), tokenizer)
        compare(name, model, trie, given.rounds)
        write(name, model)


def write(name: str, model: Model) -> None:
    """Eight tokens behind each of four prompts of 70 tokens: from the state, and each token's whole prompt anew."""
    beginning = "(France, capital, Paris)\n" * 8
    prompts = [f"{beginning}({country}, capital," for country in ("Peru", "Chad", "Oman", "Laos")]
    with patch.object(type(model), "refuses_states", lambda _: "not asked"):
        whole = seconds(lambda: model.generate(prompts, 8))
    print(f"| {name}, writing | {whole:.2f} | {seconds(lambda: model.generate(prompts, 8)):.2f} | | |")


def seconds(work: Callable[[], object]) -> float:
    """Of the processor."""
    start = time.process_time()
    work()
    return time.process_time() - start


def statements(data: str, tokenizer: GPT2TokenizerFast, queries: int) -> Iterator[list[int]]:
    """Those of relation P36's first template."""
    read = fathom.read_data(data)
    asked = [query for query in read.queries if query.relation == "P36"][:queries]
    template, space = read.relations["P36"].templates[0], read.candidates[asked[0].candidates]
    prompts = [template.fill(query.subject, name, capitalize=True) for query in asked for name in space.names]
    for tokens in encode_causal(tokenizer, prompts, tokenizer.bos_token_id):
        yield tokens.ids.tolist()


def mamba() -> PreTrainedModel:
    return MambaForCausalLM(MambaConfig(hidden_size=768, num_hidden_layers=6, vocab_size=50257))


def jamba() -> PreTrainedModel:
    return JambaForCausalLM(
        JambaConfig(
            hidden_size=512,
            intermediate_size=1024,
            num_hidden_layers=8,
            num_attention_heads=8,
            num_key_value_heads=4,
            num_experts=4,
            vocab_size=50257,
            use_mamba_kernels=False,
        )
    )


MODELS: dict[str, Callable[[], PreTrainedModel]] = {"Mamba, 768 × 6": mamba, "Jamba, 512 × 8": jamba}


def compare(name: str, model: Model, trie: Trie, rounds: int) -> None:
    assert model.refuses_states() is None, model.refuses_states()
    ways = {"plain": causal._by_plain_batches, "states": by_states}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    scores = {}
    for _ in range(rounds):
        for way, run in ways.items():
            start = time.process_time()
            with torch.inference_mode():
                scores[way] = run(model, trie, Budget(None, model.device), None)
            seconds[way].append(time.process_time() - start)
    plain, states = median(seconds["plain"]), median(seconds["states"])
    off = np.nanmax(np.abs(scores["plain"] - scores["states"]))
    print(f"| {name} | {plain:.2f} | {states:.2f} | {plain / states:.1f} | {off:.0e} |", flush=True)


if __name__ == "__main__":
    main()
