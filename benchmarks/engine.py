"""The engine and the kernels that it chooses between, one thread: milliseconds or seconds of the processor."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal
from unittest.mock import patch

import numpy as np
import torch
from harness import (
    DATA,
    Table,
    benchmark,
    bert,
    gpt2,
    in_turns,
    medians,
    network,
    own_process,
    scratch,
    timed,
    tokenizer,
    wrap,
)
from torch.nn import functional

import fathom
from fathom.engine.models.base import LinearHead, Model
from fathom.engine.scoring.memory import Budget

RELATION = "P36"
Mode = Literal["causal", "llama", "masked", "tokens", "host"]


# ---------------------------------------------------------------------------------------------------------- the engine


def statements(count: int) -> list[Any]:
    """Return the prompts of the relation's first template, of its first *count* subjects with every answer."""
    data = fathom.read_data(DATA / "bear" / "BEAR")
    queries = [query for query in data.queries if query.relation == RELATION][:count]
    template, names = data.relations[RELATION].templates[0], data.candidates[RELATION].names
    return [template.fill(query.subject, name) for query in queries for name in names]


def causal(model: Model, prompts: list[Any]) -> Callable[[], Any]:
    from fathom.engine.scoring.causal import causal_log_probs
    from fathom.engine.scoring.tokens import encode_causal

    ids = [tokens.ids.tolist() for tokens in encode_causal(model.tokenizer, prompts, model.tokenizer.bos_token_id)]
    return lambda: causal_log_probs(model, ids, Budget(None, model.device))


def masked(model: Model, prompts: list[Any]) -> Callable[[], Any]:
    from fathom.engine.scoring.masked import Pll, masked_log_probs
    from fathom.engine.scoring.tokens import encode_masked

    tokens, budget = encode_masked(model.tokenizer, prompts), Budget(None, model.device)
    masked_log_probs(model, tokens[:2], Pll.WITHIN_WORD_L2R, budget)  # the model's checks
    return lambda: masked_log_probs(model, tokens, Pll.WITHIN_WORD_L2R, budget)


def tokens(prompts: list[Any]) -> Callable[[], Any]:
    """Statements as tokens with roles, without any model."""
    from fathom.engine.scoring.tokens import encode_causal

    words = tokenizer("gpt2")
    encode_causal(words, prompts[:2], words.bos_token_id)
    return lambda: encode_causal(words, prompts, words.bos_token_id)


def host(limit: int) -> Callable[[], Any]:
    """The statement probe from prompts to Parquet, with scores made of token ids: the time that a fast device waits."""
    from fathom.engine.scoring import statements as engine
    from fathom.engine.scoring.trie import build_trie

    def from_ids(model: Any, sequences: list[list[int]], budget: Any, vectors: Any = None) -> list[np.ndarray]:
        build_trie(sequences)
        return [np.array([np.nan, *(-(token % 97) / 7 for token in ids[1:])], np.float32) for ids in sequences]

    model, options = gpt2(n_layer=2, n_embd=64, n_head=2), {"templates": "0,1,2", "limit": limit, "progress": False}

    def probe() -> None:
        with scratch() as folder, patch.object(engine, "causal_log_probs", from_ids):
            fathom.probe("statement", model, DATA / "bear" / "BEAR", folder / "run", **options)

    return probe


@benchmark
def engine(mode: Mode = "causal", queries: int = 4, layers: int = 12, rounds: int = 3, profile: bool = False) -> None:
    """Time the engine on statements of BEAR's P36, one thread.

    --mode causal (GPT-2-small's shape), llama (layers of 1,024 dimensions), masked (BERT-base's shape), tokens (no
    model) or host (no model's passes, --queries facts of all relations); --profile: by torch's profiler.
    """
    torch.set_num_threads(1)
    if mode == "masked":
        score = masked(bert(layers), statements(queries))
    elif mode in ("causal", "llama"):
        score = causal(gpt2(n_layer=layers) if mode == "causal" else llama(layers), statements(queries))
    else:
        score = tokens(statements(queries)) if mode == "tokens" else host(queries)
    if profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
            score()
        print(profiled.key_averages().table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=50))
        return
    [seconds] = in_turns({mode: score}, rounds)[0].values()
    print(f"{mode}, {queries} queries: median {np.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f}")


@benchmark
def masked_peak(queries: int = 2, layers: int = 12, rounds: int = 7, size: int = 2048) -> None:
    """Share of the processor's peak that a masked run reaches: products of linear layers and of the head, one thread.

    The peak is the faster of MKL and oneDNN on square matrices of float32. All run in turns, in seconds of the
    processor, so that other work on the machine affects all alike. Attention, GELU, sums and layer norms take time but
    count no operations.
    """
    from fathom.engine.models.weights import FastLinear, _onednn_linear
    from fathom.engine.scoring import masked as engine

    torch.set_num_threads(1)
    score = masked(bert(layers), statements(queries))
    operations = {"all": 0.0}
    forward, head = FastLinear.forward, engine.target_log_probs

    def counted(layer: FastLinear, inputs: torch.Tensor) -> torch.Tensor:
        operations["all"] += 2 * inputs.numel() * layer.out_features
        return forward(layer, inputs)

    def counted_head(model: Any, states: torch.Tensor, *others: Any) -> torch.Tensor:
        operations["all"] += 2 * states.numel() * model.vocabulary_size
        return head(model, states, *others)

    with patch.object(FastLinear, "forward", counted), patch.object(engine, "target_log_probs", counted_head):
        score()
    left, right = (torch.randn(size, size) for _ in range(2))
    with torch.inference_mode():
        ways = {"MKL": lambda: left @ right.T, "oneDNN": lambda: _onednn_linear(left, right, None), "masked run": score}
        for way in ways.values():
            way()
        seconds = medians(in_turns(ways, rounds)[0])
    rates = {name: operations["all"] / 1e9 / taken for name, taken in seconds.items() if name == "masked run"}
    rates |= {name: 2 * size**3 / 1e9 / seconds[name] for name in ("MKL", "oneDNN")}
    peak = max(rates["MKL"], rates["oneDNN"])
    table = Table("what", "median, s", "GFLOP/s", "share of peak")
    for name, rate in rates.items():
        table.row(name, f"{seconds[name]:.2f}", f"{rate:.1f}", f"{rate / peak:.0%}")


def llama(layers: int) -> Model:
    shape = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": layers, "num_attention_heads": 16}
    return wrap(network("LlamaForCausalLM", vocab_size=50257, **shape), tokenizer("gpt2"))


@benchmark
def allocator(queries: int = 8, layers: int = 4, rounds: int = 3) -> None:
    """Measure a Llama's seconds with freed memory kept and without."""
    seconds: dict[str, list[float]] = {"kept": [], "handed back": []}
    for _ in range(rounds):
        for way, values in seconds.items():
            options = ["--way", way, "--queries", queries, "--layers", layers]
            values.append(json.loads(own_process("_allocated", *options, output=True)))
    table = Table("freed memory", "median, s", "least, s")
    for way, middle in medians(seconds).items():
        table.row(way, f"{middle:.2f}", f"{min(seconds[way]):.2f}")


@benchmark
def _allocated(way: str, queries: int, layers: int) -> None:
    torch.set_num_threads(1)
    setting = patch("fathom.engine.models.weights.keep_freed_memory") if way == "handed back" else patch.dict({})
    with setting:
        score = causal(llama(layers), statements(queries))
        print(timed(score)[1].cpu)


# ------------------------------------------------------------------------------------------------------------- kernels

ROWS, INPUTS, OUTPUTS = 512, 768, 3072


def kernels(title: str, ways: dict[str, Callable[[], Any]], operations: float = 0) -> dict[str, Any]:
    """Print medians of nine rounds; GFLOP/s where the number of operations is given. :returns: results by way."""
    print(f"{torch.backends.cpu.get_cpu_capability()}, {title}")
    with torch.inference_mode():
        seconds, results = in_turns(ways, 9)
    table = Table("way", "median, ms", *["GFLOP/s"] * bool(operations))
    for name, middle in medians(seconds).items():
        table.row(name, f"{1000 * middle:.1f}", *[f"{operations / middle / 1e9:.0f}"] * bool(operations))
    return results


@benchmark
def products() -> None:
    """Time a linear layer by oneDNN and by MKL."""
    from fathom.engine.models.weights import _onednn_linear, keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    states, weight, bias = torch.randn(ROWS, INPUTS), torch.randn(OUTPUTS, INPUTS), torch.randn(OUTPUTS)
    ways = {
        "oneDNN": lambda: _onednn_linear(states, weight, bias),
        "MKL": lambda: functional.linear(states, weight, bias),
        "MKL, then GELU": lambda: functional.gelu(functional.linear(states, weight, bias)),
    }
    kernels(f"{ROWS} × {INPUTS} times {INPUTS} × {OUTPUTS}, float32", ways, 2 * ROWS * INPUTS * OUTPUTS)


@benchmark
def head() -> None:
    """Time the soft-max over GPT-2's vocabulary: Fathom's slices, all logits at once, torch's loss."""
    from fathom.engine.scoring.memory import CPU_LOGITS, _by_vocabulary_slices

    torch.set_num_threads(1)
    torch.manual_seed(0)
    width, vocabulary = 768, 50257
    states, weight = torch.randn(ROWS, width), torch.randn(vocabulary, width) / width**0.5
    rows, tokens = torch.arange(ROWS), torch.randint(vocabulary, (ROWS,))
    linear = LinearHead(lambda hidden: hidden, weight, None)

    def at_once() -> torch.Tensor:
        logits = functional.linear(states, weight)
        return logits[rows, tokens] - torch.logsumexp(logits, dim=-1)

    ways: dict[str, Callable[[], torch.Tensor]] = {
        "slices of the vocabulary (Fathom)": lambda: _by_vocabulary_slices(linear, states, rows, tokens, CPU_LOGITS),
        "all logits at once": at_once,
    }
    if hasattr(functional, "linear_cross_entropy"):  # torch 2.13
        for name, options in (("chunked", torch.nn.LinearCrossEntropyOptions()), ("whole", None)):
            more = {} if options is None else {"options": options}
            loss = partial(functional.linear_cross_entropy, states, weight, tokens, reduction="none", **more)
            ways[f"linear_cross_entropy, {name}"] = lambda loss=loss: -loss()
    results = kernels(f"{ROWS} states, {vocabulary} tokens", ways)
    first = next(iter(results.values()))
    for name, scores in results.items():
        print(f"{name}: differs by at most {(scores - first).abs().max():.0e} nats")


# ------------------------------------------------------------------------------------------------- recurrent and hybrid


@benchmark
def states(queries: int = 4, rounds: int = 3) -> None:
    """Compare a shared prefix run once with plain batches, for recurrent and hybrid models."""
    from fathom.engine.scoring import causal as engine
    from fathom.engine.scoring.causal import by_levels
    from fathom.engine.scoring.tokens import encode_causal
    from fathom.engine.scoring.trie import build_trie

    words = tokenizer("gpt2")
    jamba = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8}
    jamba |= {"num_key_value_heads": 4, "num_experts": 4, "use_mamba_kernels": False}
    models = {
        "Mamba, 768 × 6": network("MambaForCausalLM", hidden_size=768, num_hidden_layers=6, vocab_size=50257),
        "Jamba, 512 × 8": network("JambaForCausalLM", vocab_size=50257, **jamba),
    }
    ids = [tokens.ids.tolist() for tokens in encode_causal(words, statements(queries), words.bos_token_id)]
    trie = build_trie(ids)
    total, nodes = sum(map(len, ids)), len(trie.inner)
    print(f"{len(ids)} statements, {total} tokens, {nodes} inner nodes: {total / nodes:.1f} tokens per node")
    prompts = ["(France, capital, Paris)\n" * 8 + f"({land}, capital," for land in ("Peru", "Chad", "Oman", "Laos")]
    table = Table("model", "plain batches, s", "states, s", "ratio", "largest difference, nats")
    for name, module in models.items():
        model = fathom.wrap_model(module, words)
        assert model.refuses_states() is None, model.refuses_states()
        budget = Budget(None, model.device)
        ways = {"plain": partial(engine._by_plain_batches, model, ids, budget, None, equal=False)}
        ways["states"] = partial(by_levels, model, trie, budget, None)
        with torch.inference_mode():
            seconds, scores = in_turns(ways, rounds)
        plain, shared = medians(seconds).values()
        by_text = [scores["states"][path[path >= 0]] for path in trie.paths]
        off = np.nanmax(np.abs(np.concatenate(scores["plain"]) - np.concatenate(by_text)))
        table.row(name, f"{plain:.2f}", f"{shared:.2f}", f"{plain / shared:.1f}", f"{off:.0e}")
        with patch.object(type(model), "refuses_states", lambda *_: "not used"):
            plain = timed(lambda model=model: model.generate(prompts, 8))[1].cpu
        shared = timed(lambda model=model: model.generate(prompts, 8))[1].cpu
        table.row(f"{name}, writing", f"{plain:.2f}", f"{shared:.2f}", f"{plain / shared:.1f}", "")


# ----------------------------------------------------------------------------------------------------------- precision


@benchmark
def precision(models: tuple[str, ...], count: int = 200) -> None:
    """Measure token scores in float32 against one forward pass per statement in float64."""
    from tests.engine.test_precision import loop
    from tests.engine.test_precision import statements as texts
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from fathom.engine.scoring.causal import causal_log_probs

    torch.set_num_threads(1)
    table = Table("model", "way", "rms, token", "max, token", "rms, statement", "max, statement")
    for folder in models:
        words = AutoTokenizer.from_pretrained(folder)
        ids = [[words.bos_token_id, *words(text, add_special_tokens=False)["input_ids"]] for text in texts()[:count]]
        exact = loop(folder, ids, torch.float64)
        ways = {"transformers": loop(folder, ids, torch.float32)}
        for way in ("Fathom", "Fathom, layers not exchanged"):
            setting = (
                patch.dict({})
                if way == "Fathom"
                else patch("fathom.engine.models.local.use_fast_kernels", lambda _: [])
            )
            with setting:
                model = fathom.wrap_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), words)
                ways[way] = [row[1:] for row in causal_log_probs(model, ids, Budget(None, model.device))]
        for way, rows in ways.items():
            tokens = [np.asarray(row, np.float64) - right for row, right in zip(rows, exact, strict=True)]
            by_token, by_statement = np.concatenate(tokens), np.array([row.sum() for row in tokens])
            parts = by_token, by_statement
            off = [f"{size:.1e}" for part in parts for size in (np.sqrt(np.square(part).mean()), abs(part).max())]
            table.row(folder.rpartition("/")[2], way, *off)
