"""One GPU from start to end: eight jobs, and the share of its peak that they reach, in eight minutes.

    python benchmarks/gpu.py                     # all jobs, on the GPU that is there
    python benchmarks/gpu.py --smoke --device cpu   # the same code on tiny shapes, to see that it runs
    python benchmarks/gpu.py --jobs bear,harness

Data and tokenizers are looked for in ``FATHOM_DATA`` or ``../shared/data`` (BEAR, WN18RR, the tokenizer of GPT-2). The
models have random weights of usual shapes: speed does not depend on what they know. Each job runs in a process of its
own; one that fails says why, and the others go on. Printed are Markdown tables, and kept as JSON with ``--json``.

- ``peak``     matrix products of 8,192² in bfloat16: what the processor can do at best.
- ``bear``     GPT-2 small, all of BEAR, three templates: ``fathom probe statement`` from start to end.
- ``harness``  the same statements, some of them, through lm-evaluation-harness at batch 1 (its default) and the best of
  several, on the same device at the same precision.
- ``deer``     a 1.3 B shape, ``fathom probe embedding`` on all of WN18RR.
- ``search``   a 1.3 B shape, ranks among 40,943 entities, with ``max_rank`` 100 and in full, of a sample of the
  questions, and what that makes for all of them.
- ``large``    an 8 B shape on BEAR: operations within passes (those of padding among them) against the measured peak.
- ``attention`` packed trees of P36 in blocks of several sizes, under a dense mask, as the engine has it, and under
  FlexAttention's block masks: masks made once a pass, attention of 12 layers with 32 heads of 64.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
SHAPES = {  # layers, width, width of the feed-forward part, heads, heads of keys and values
    "small": (12, 768, 3072, 12, 12),
    "1.3B": (24, 2048, 5632, 32, 32),
    "8B": (32, 4096, 14336, 32, 8),
    "tiny": (2, 64, 128, 2, 2),
}
LIMITS = {
    "peak": 30,
    "bear": 120,
    "harness": 120,
    "deer": 120,
    "search": 150,
    "large": 120,
    "attention": 90,
}
"""Seconds after which a job is given up."""
TOTAL = 480
"""Seconds after which all jobs are given up."""


def folder_of(shape: str, where: Path, dtype: str, device: str) -> str:
    """A model folder of that shape: GPT-2 where it is small, else Llama; with GPT-2's tokenizer."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast, LlamaConfig, LlamaForCausalLM

    layers, width, inner, heads, shared = SHAPES[shape]
    torch.manual_seed(0)
    with torch.device(device):
        if shape in ("small", "tiny"):
            network = GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=width, n_inner=inner, n_head=heads))
        else:
            torch.set_default_dtype(getattr(torch, dtype))
            config = LlamaConfig(
                vocab_size=50257,
                hidden_size=width,
                intermediate_size=inner,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                num_key_value_heads=shared,
                max_position_embeddings=2048,
                bos_token_id=50256,
                eos_token_id=50256,
            )
            network = LlamaForCausalLM(config)
            torch.set_default_dtype(torch.float32)
    folder = where / shape
    network.to(getattr(torch, dtype)).save_pretrained(folder)
    GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2").save_pretrained(folder)
    return str(folder)


def command_line(*words: str) -> float:
    """Seconds of a command, from start to end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "fathom", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def synchronised(device: str) -> None:
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()


def peak(arguments: argparse.Namespace, where: Path) -> dict:
    """Operations a second of large products."""
    import torch

    size = 256 if arguments.smoke else 8192
    left, right = (torch.randn(size, size, device=arguments.device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    synchronised(arguments.device)
    began, times = time.perf_counter(), 3 if arguments.smoke else 50
    for _ in range(times):
        left @ right
    synchronised(arguments.device)
    return {"TFLOP/s": 2 * size**3 * times / (time.perf_counter() - began) / 1e12}


def bear(arguments: argparse.Namespace, where: Path) -> dict:
    """The whole job as a user types it; then, of one relation, how long the device was at work."""
    folder = folder_of("tiny" if arguments.smoke else "small", where, "float32", arguments.device)
    asked = ["probe", "statement", "--model", folder, "--data", str(DATA / "bear" / "BEAR"), "--templates", "0,1,2"]
    asked += ["--device", arguments.device, *(["--limit", "20"] if arguments.smoke else [])]
    found: dict = {}
    for dtype in ("float32", "bfloat16"):
        found[f"{dtype}, s"] = command_line(*asked, "--dtype", dtype, "--out", str(where / dtype))
        manifest = json.loads((where / dtype / "manifest.json").read_text())
        found[f"{dtype}, of these asking, s"] = manifest["circumstances"]["seconds"]
    found["device at work, share"] = busy(arguments, folder)
    return found


def busy(arguments: argparse.Namespace, folder: str) -> float | str:
    """Share of the time of asking in which a kernel runs, by torch's profiler, over some relations."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import fathom

    if not arguments.device.startswith("cuda"):
        return "no GPU"
    model, data = (
        fathom.load_model(folder, device=arguments.device, dtype="bfloat16"),
        fathom.read_data(DATA / "bear" / "BEAR"),
    )
    options = {"templates": 0, "relations": "P36,P30,P37", "progress": False}
    fathom.probe("statement", model, data, **options)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        began = time.perf_counter()
        fathom.probe("statement", model, data, **options)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return sum(event.self_device_time_total for event in seen.key_averages()) / 1e6 / seconds


def statements(count: int) -> tuple[list, list[str]]:
    """Queries of BEAR's P36 and their statements in the first template."""
    from fathom.data.formats import read
    from fathom.data.selection.filters import select
    from fathom.data.selection.options import Selection

    data = select(read(DATA / "bear" / "BEAR"), Selection(relations=["P36"])).data
    template, names = data.relations["P36"].templates[0], data.candidates["P36"].names
    return list(data.queries[:count]), [
        template.fill(query.subject, name).text for query in data.queries[:count] for name in names
    ]


def harness(arguments: argparse.Namespace, where: Path) -> dict:
    """Statements a second, both on statements of the same queries, after a first round that is not counted."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM
    from transformers import AutoModelForCausalLM, AutoTokenizer

    import fathom

    folder = folder_of("tiny" if arguments.smoke else "small", where, "float32", arguments.device)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(arguments.device).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    queries, texts = statements(4 if arguments.smoke else 60)
    found: dict = {}
    for batch, share in ((1, 0.05), (32, 1.0), (128, 1.0), (512, 1.0)):
        peer = HFLM(pretrained=network, tokenizer=tokenizer, batch_size=batch)
        some = texts[: max(8, int(share * len(texts)))]
        requests = [Instance("loglikelihood", {}, ("", text), number) for number, text in enumerate(some)]
        peer.loglikelihood(requests[:batch], disable_tqdm=True)
        synchronised(arguments.device)
        began = time.perf_counter()
        peer.loglikelihood(requests, disable_tqdm=True)
        synchronised(arguments.device)
        found[f"harness, batch {batch}, statements/s"] = len(some) / (time.perf_counter() - began)
    model = fathom.load_model(folder, device=arguments.device, dtype="bfloat16")
    asked = {"relations": "P36", "templates": 0, "limit": len(queries), "progress": False}
    fathom.probe("statement", model, DATA / "bear" / "BEAR", **asked)
    began = time.perf_counter()
    fathom.probe("statement", model, DATA / "bear" / "BEAR", **asked)
    found["Fathom, statements/s, with rows and intervals"] = len(texts) / (time.perf_counter() - began)
    best = max(value for name, value in found.items() if name.startswith("harness"))
    found["times its best"] = found["Fathom, statements/s, with rows and intervals"] / best
    found["times its default"] = (
        found["Fathom, statements/s, with rows and intervals"] / found["harness, batch 1, statements/s"]
    )
    return found


def deer(arguments: argparse.Namespace, where: Path) -> dict:
    """All entities and all test questions, both directions left as the command has them."""
    folder = folder_of("tiny" if arguments.smoke else "1.3B", where, "bfloat16", arguments.device)
    asked = ["--model", folder, "--data", str(DATA / "wn18rr"), "--dtype", "bfloat16", "--device", arguments.device]
    if arguments.smoke:
        asked += ["--limit", "4", "--candidates", "asked"]
    return {"s": command_line("probe", "embedding", *asked, "--out", str(where / "run"))}


def search(arguments: argparse.Namespace, where: Path) -> dict:
    """Seconds a question, and of all 3,134 and all 93,003 triples at that rate."""
    import fathom

    folder = folder_of("tiny" if arguments.smoke else "1.3B", where, "bfloat16", arguments.device)
    model = fathom.load_model(folder, device=arguments.device, dtype="bfloat16")
    data = fathom.read_data(DATA / "wn18rr")
    found: dict = {}
    for name, said, count in (("max_rank 100", {"max_rank": 100}, 256), ("full ranks", {}, 32)):
        asked = {"limit": 2, "candidates": "asked"} if arguments.smoke else {"limit": count}
        began = time.perf_counter()
        result = fathom.probe("statement", model, data, where / name.replace(" ", "-"), progress=False, **asked, **said)
        each = (time.perf_counter() - began) / result.table().num_rows
        found |= {f"{name}, ms a question": 1000 * each, f"{name}, 3,134 questions, s": 3134 * each}
        found[f"{name}, 93,003 questions, min"] = 93003 * each / 60
    return found


def large(arguments: argparse.Namespace, where: Path) -> dict:
    """Operations of the linear layers over the tokens that passes run, against the measured peak."""
    import torch

    import fathom
    from fathom.engine.models.local import LocalModel

    folder = folder_of("tiny" if arguments.smoke else "8B", where, "bfloat16", arguments.device)
    model = fathom.load_model(folder, device=arguments.device, dtype="bfloat16")
    noted = {"tokens": 0, "seconds": 0.0}
    whole = LocalModel.hidden

    def timed(self, vectors, positions=None, visible=None):
        synchronised(arguments.device)
        began = time.perf_counter()
        hidden = whole(self, vectors, positions, visible)
        synchronised(arguments.device)
        noted["tokens"] += vectors.shape[0] * vectors.shape[1]
        noted["seconds"] += time.perf_counter() - began
        return hidden

    options = {"templates": 0, "relations": "P36", "limit": 4 if arguments.smoke else 60, "progress": False}
    fathom.probe("statement", model, DATA / "bear" / "BEAR", **options)  # kernels are chosen, memory is had
    began = time.perf_counter()
    fathom.probe("statement", model, DATA / "bear" / "BEAR", **options)
    seconds = time.perf_counter() - began
    LocalModel.hidden = timed
    fathom.probe("statement", model, DATA / "bear" / "BEAR", **options)
    LocalModel.hidden = whole
    head = model.network.get_output_embeddings()
    layers = [
        module for module in model.network.modules() if isinstance(module, torch.nn.Linear) and module is not head
    ]
    weights = sum(layer.weight.numel() for layer in layers)
    reached = 2 * weights * noted["tokens"] / noted["seconds"] / 1e12
    best = peak(arguments, where)["TFLOP/s"]
    return {
        "s": seconds,
        "tokens run": noted["tokens"],
        "TFLOP/s within passes": reached,
        "peak, TFLOP/s": best,
        "share": reached / best,
    }


def attention(arguments: argparse.Namespace, where: Path) -> dict:
    """Milliseconds a pass, of trees packed into blocks of so many tokens."""
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    from torch.nn.functional import scaled_dot_product_attention

    heads, layers, sizes, tokens = (2, 2, (128,), 512) if arguments.smoke else (32, 12, (128, 512, 2048), 16384)
    found = {}
    for size in sizes:
        torch._dynamo.reset()  # else it compiles for any number of tokens, which FlexAttention refuses
        flex = torch.compile(flex_attention)
        node, end = (tensor.to(arguments.device) for tensor in packed(size, tokens))
        states = [
            torch.randn(len(node), heads, node.shape[1], 64, device=arguments.device, dtype=torch.bfloat16)
            for _ in range(3)
        ]

        def seen(b, h, q, kv, node=node, end=end):
            return (node[b, kv] <= node[b, q]) & (node[b, q] < end[b, kv])

        def dense(node=node, end=end, states=states):
            visible = (node[:, None, :] <= node[:, :, None]) & (node[:, :, None] < end[:, None, :])
            hidden_from = torch.full((), torch.finfo(torch.bfloat16).min, dtype=torch.bfloat16, device=node.device)
            mask = torch.where(visible[:, None], torch.zeros_like(hidden_from), hidden_from)
            return [scaled_dot_product_attention(*states, attn_mask=mask) for _ in range(layers)][-1]

        def blocks(node=node, seen=seen, states=states, flex=flex):
            mask = create_block_mask(seen, len(node), None, node.shape[1], node.shape[1], device=arguments.device)
            return [flex(*states, block_mask=mask) for _ in range(layers)][-1]

        with torch.inference_mode():
            off = (dense() - blocks()).abs().max().item()
            for name, way in (("dense mask", dense), ("block mask", blocks)):
                found[f"{size} tokens, {name}, ms"] = milliseconds(way, arguments)
        found[f"{size} tokens, largest difference"] = off
    return found


def packed(size: int, tokens: int) -> tuple:
    """Return numbers of nodes and of the ends of their subtrees, as in a pass of the engine; padding sees itself.

    :returns: shape (blocks, size), twice.
    """
    import numpy as np
    import torch
    from transformers import GPT2TokenizerFast

    from fathom.engine.scoring.trie import blocks_from, build_trie

    tokenizer = GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")
    _, texts = statements(60)
    trie = build_trie([[tokenizer.bos_token_id, *ids] for ids in tokenizer(texts)["input_ids"]])
    blocks, _ = blocks_from(trie, 0, size, tokens)
    node = len(trie.tokens) + np.tile(np.arange(size), (len(blocks), 1))
    end = node + 1
    for row, block in enumerate(blocks):
        count = len(block.nodes)
        node[row, :count], end[row, :count] = block.nodes, trie.end[block.nodes]
    return torch.from_numpy(node), torch.from_numpy(end)


def milliseconds(work: Callable[[], object], arguments: argparse.Namespace) -> float:
    """The best of some rounds."""
    taken = []
    for _ in range(3 if arguments.smoke else 10):
        synchronised(arguments.device)
        began = time.perf_counter()
        work()
        synchronised(arguments.device)
        taken.append(time.perf_counter() - began)
    return 1000 * min(taken)


JOBS = {job.__name__: job for job in (peak, bear, harness, deer, search, large, attention)}


def one(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(JOBS[arguments.one](arguments, Path(folder))))


def all_of(arguments: argparse.Namespace) -> None:
    began, found = time.perf_counter(), {}
    words = ["--device", arguments.device, *(["--smoke"] if arguments.smoke else [])]
    for job in arguments.jobs.split(","):
        started = time.perf_counter()
        scale = 10 if arguments.smoke else 1  # a CPU is slow
        limit = min(scale * LIMITS[job], max(1, scale * TOTAL - (started - began)))
        try:
            ended = subprocess.run(
                [sys.executable, __file__, "--one", job, *words],
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
            lines = (ended.stdout if ended.returncode == 0 else ended.stderr).strip().splitlines()
            found[job] = json.loads(lines[-1]) if ended.returncode == 0 else {"failed": lines[-1] if lines else "?"}
        except subprocess.TimeoutExpired:
            found[job] = {"failed": f"not done within {limit:.0f} s"}
        print(f"\n## {job} ({time.perf_counter() - started:.0f} s)\n\n| what | |\n|---|---:|")
        for name, value in found[job].items():
            print(f"| {name} | {value:,.3f} |" if isinstance(value, float) else f"| {name} | {value} |", flush=True)
    print(f"\n{time.perf_counter() - began:.0f} s in all")
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


def main() -> None:
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--one", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--smoke", action="store_true", help="tiny shapes and a few questions")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    one(arguments) if arguments.one else all_of(arguments)


if __name__ == "__main__":
    main()
