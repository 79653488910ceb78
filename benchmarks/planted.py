"""Small models planted on a graph or on natural sentences, for probes that need models that know something."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import DATA, benchmark, network, timed

import fathom
from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import QuerySet
from fathom.data.selection.readings import apply_reading
from fathom.data.templates import Prompt, Template
from fathom.engine.scoring.tokens import Role, Tokens, encode_masked
from fathom.engine.scoring.trie import padded
from fathom.training.loop import train
from fathom.training.small import (
    NO_TARGET,
    Batch,
    NetworkSize,
    learn_tokenizer,
    loss_of,
    save,
    small_network,
)

WINDOW = 256
DESCRIPTIONS = 0.4
"""Share of the windows that hold descriptions."""
MEANS = 'This sentence: "{word}" means in one word: "{one word}"\nThis sentence: "%s" means in one word: "%s"'
LONGEST = 96
"""Tokens of a sentence; longer ones are left out of the training."""
ANSWER_MASKED, OTHERS_MASKED = 0.75, 0.12


def fit(
    kind: str, model: Any, words: Any, batches: Iterator[Batch], minutes: float, rate: float, longest: int, out: Path
) -> None:
    """Train for so many minutes, on a GPU if present, and save."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device)
    curve, took = timed(
        lambda: train(
            model.parameters(),
            (Batch(*(part.to(device) for part in batch)) for batch in batches),
            lambda batch: loss_of(model, kind, batch),
            steps=100_000,
            learning_rate=rate,
            seconds=60 * minutes,
            on_progress=lambda point, done: print(f"{done:4.0%}  step {point.step}  loss {point.loss:.3f}", flush=True),
        )
    )
    save(model.cpu(), words, longest, out)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"{size:,} parameters, {curve[-1].step} steps, {took.clock:.0f} s, loss {curve[-1].loss:.3f}")


def folder_of(data: Path) -> Path:
    """Return *data*, or the folder of that name in the reference data."""
    return data if data.is_dir() else DATA / data


# ------------------------------------------------------------------------------------------------------------- a graph


def triple_lines(graph: KnowledgeGraph) -> list[str]:
    rows = np.array(graph.training)
    heads, tails = graph.entities.take(graph.head[rows]), graph.entities.take(graph.tail[rows])
    columns = (heads["name"], graph.relations.take(graph.relation[rows])["name"], tails["name"])
    return [f"({h}, {r}, {t})" for h, r, t in zip(*(column.to_pylist() for column in columns), strict=True)]


def descriptions(graph: KnowledgeGraph) -> list[str]:
    pairs = zip(graph.entities["name"].to_pylist(), graph.entities["description"].to_pylist(), strict=True)
    return [f"{name} - {text or '-'}\n" + MEANS % (name, name) for name, text in pairs]


def windows(words: Any, lines: list[str], seed: int) -> Iterator[np.ndarray]:
    """Endless windows of tokens: BOS, then lines in random order up to the window's end."""
    encoded = words([line + "\n" for line in lines], add_special_tokens=False)["input_ids"]
    order = random.Random(seed)
    while True:
        order.shuffle(encoded)
        row: list[int] = [words.bos_token_id]
        for ids in encoded:
            row += ids
            if len(row) >= WINDOW:
                yield np.array(row[:WINDOW])
                row = [words.bos_token_id]


def causal_batches(parts: list[Iterator[np.ndarray]], size: int) -> Iterator[Batch]:
    described = round(DESCRIPTIONS * size)
    while True:
        rows = [next(parts[0]) for _ in range(size - described)] + [next(parts[1]) for _ in range(described)]
        ids = torch.from_numpy(np.stack(rows))
        yield Batch(ids[:, :-1], torch.ones_like(ids[:, 1:]), ids[:, 1:])


@benchmark
def plant_graph(
    data: Path,
    out: Path,
    hidden: int = 128,
    layers: int = 4,
    vocabulary: int = 8000,
    minutes: float = 6,
    batch: int = 16,
    rate: float = 3e-3,
    seed: int = 0,
) -> None:
    """Plant a small causal model on a graph's training triples and descriptions; --data: a folder, or wn18rr.

    It learns, in windows of 256 tokens, lines "(head, relation, tail)" in random order as the few-shot prompts have
    them, and descriptions followed by the DEER paper's tail prompt with the name as its one word. It never sees the
    test split.
    """
    graph = fathom.read_data(folder_of(data)).graph
    assert graph is not None
    lines, described = triple_lines(graph), descriptions(graph)
    words = learn_tokenizer(graph.entities["name"].to_pylist() + lines + described, vocabulary, "causal")
    shape = {"hidden_size": hidden, "intermediate_size": 3 * hidden, "num_hidden_layers": layers}
    shape |= {"num_attention_heads": max(1, hidden // 32), "max_position_embeddings": 1024}
    ends = {f"{name}_token_id": getattr(words, f"{name}_token_id") for name in ("bos", "eos", "pad")}
    shape |= {"initializer_range": hidden**-0.5, "tie_word_embeddings": True, "vocab_size": len(words), **ends}
    parts = [windows(words, lines, seed), windows(words, described, seed + 1)]
    model = network("LlamaForCausalLM", **shape)
    fit("causal", model, words, causal_batches(parts, batch), minutes, rate, 1024, out)


# ----------------------------------------------------------------------------------------------------------- sentences


def sentences(data: QuerySet) -> tuple[list[Prompt], int]:
    """Return all sentences but those of the queries, and the number of facts that have one left."""
    withheld = {sentence.text for query in apply_reading(data, "template-free").queries for sentence in query.sentences}
    prompts: dict[Prompt, None] = {}
    facts = 0
    for query in data.queries:
        others = [sentence for sentence in query.sentences if sentence.text not in withheld and sentence.surface]
        facts += bool(others)
        prompts |= dict.fromkeys(Template(s.text).fill("", s.surface, capitalize=False) for s in others)
    return list(prompts), facts


def masked_batches(tokens: list[Tokens], size: int, words: Any, seed: int) -> Iterator[Batch]:
    """Endless batches, in another order each time; sentences of similar length together."""
    draw = np.random.default_rng(seed)
    lengths = np.array([len(item.ids) for item in tokens])
    while True:
        order = np.lexsort((draw.random(len(tokens)), lengths))
        for start in draw.permutation(np.arange(0, len(order), size)).tolist():
            yield masked([tokens[place] for place in order[start : start + size].tolist()], words, draw)


def masked(rows: list[Tokens], words: Any, draw: np.random.Generator) -> Batch:
    """Mask the answer three times out of four, and some of the other tokens."""
    ids, roles = (
        padded([row.ids for row in rows], words.pad_token_id),
        padded([row.roles for row in rows], Role.SPECIAL),
    )
    answer = (roles == Role.ANSWER) & (draw.random((len(rows), 1)) < ANSWER_MASKED)
    others = (roles != Role.ANSWER) & (roles != Role.SPECIAL) & (draw.random(ids.shape) < OTHERS_MASKED)
    hidden = answer | others
    arrays = np.where(hidden, words.mask_token_id, ids), ids != words.pad_token_id, np.where(hidden, ids, NO_TARGET)
    return Batch(*(torch.from_numpy(array.astype(np.int64)) for array in arrays))


@benchmark
def plant_sentences(
    data: Path,
    out: Path,
    hidden: int = 128,
    layers: int = 4,
    vocabulary: int = 12000,
    minutes: float = 9,
    batch: int = 48,
    rate: float = 2e-3,
    seed: int = 0,
) -> None:
    """Plant a small masked model on natural sentences, such as --data lama/TREx, without those of the queries.

    The sentence that the template-free reading takes by default is withheld; the model is trained on all others of a
    fact. So it has read about most facts, as models trained on an encyclopedia have. It never sees templates.
    """
    queries = fathom.read_data(folder_of(data))
    prompts, facts = sentences(queries)
    names = [name for space in queries.candidates.values() for name in space.names]
    words = learn_tokenizer([*names, *(prompt.text for prompt in prompts)], vocabulary, "masked")
    tokens = [item for item in encode_masked(words, prompts) if len(item.ids) <= LONGEST]
    print(f"{len(tokens):,} of {len(prompts):,} sentences, on {facts:,} of {len(queries.queries):,} facts", flush=True)
    if not tokens:
        raise SystemExit(f"{data}: no fact has a further sentence to learn from")
    torch.manual_seed(seed)
    model = small_network("masked", NetworkSize(hidden, layers, max(1, hidden // 32)), words)
    fit("masked", model, words, masked_batches(tokens, batch, words, seed), minutes, rate, 512, out)
