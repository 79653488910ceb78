"""The embedding probe and the reference way, side by side in one run: seconds per query, per entity, and to rank.

    python benchmarks/deer.py                          # WN18RR, float32 and bfloat16
    python benchmarks/deer.py --queries 64 --entities 32 --reference 3 --rounds 1     # a glance

The reference way is that of the DEER paper's published code: one prompt at a time through `transformers`, the last
token's last hidden state taken, nothing shared. Both ways see the same prompts. The model is GPT-2-small-shaped with
random weights: speed does not depend on what it knows. The two take turns, round by round, and the ratio is that of
the medians. WN18RR and the tokenizer are looked for in ``FATHOM_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")


def network_and_tokenizer(dtype: str):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    torch.manual_seed(0)
    network = GPT2LMHeadModel(GPT2Config()).eval().to(getattr(torch, dtype))
    return network, GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")


def prompts(queries: int, entities: int) -> dict[str, list[str]]:
    """Few-shot prompts of some test queries of WN18RR, and the texts of some entities, both drawn at random."""
    from fathom.formats import read
    from fathom.probes.embedding import tail_prompt, tail_template
    from fathom.probes.options import EmbeddingOptions

    data = read(DATA / "wn18rr")
    lines, space, template = EmbeddingOptions().few_shot(data), data.candidates["entities"], tail_template("deer")
    draw = random.Random(0)
    asked = draw.sample(range(len(data.queries)), min(queries, len(data.queries)))
    places = draw.sample(range(len(space)), min(entities, len(space)))
    return {
        "query": [lines.prompt(data.queries[place]) for place in asked],
        "entity": [tail_prompt(template, space.names[place], space.descriptions[place]) for place in places],
    }


def reference(dtype: str) -> Callable[[list[str]], list]:
    """Texts → vectors, one at a time."""
    import torch

    network, tokenizer = network_and_tokenizer(dtype)

    def encode(texts: list[str]) -> list:
        found = []
        with torch.no_grad():
            for text in texts:
                inputs = tokenizer(tokenizer.bos_token + text, return_tensors="pt")
                found.append(network(**inputs, output_hidden_states=True).hidden_states[-1][0, -1].float())
        return found

    return encode


def fathom_way(dtype: str) -> Callable[[list[str]], list]:
    from fathom.models.loading import wrap
    from fathom.scoring.memory import Budget
    from fathom.scoring.vectors import Pooling, text_vectors

    network, tokenizer = network_and_tokenizer(dtype)
    model = wrap(network, tokenizer)
    model.refuses_cache()  # the self-check happens once per model
    budget = Budget(None, model.device)
    return lambda texts: list(text_vectors(model, texts, tokenizer.bos_token_id, Pooling.LAST, budget).vectors.float())


def compare(dtype: str, texts: dict[str, list[str]], few: int, rounds: int) -> list[dict]:
    """Seconds per text of both ways, and how far their vectors are apart. :param few: texts for the slow way."""
    import torch

    slow, fast = reference(dtype), fathom_way(dtype)
    slow(texts["query"][:2]), fast(texts["query"][:2])  # what is set up at the first call
    rows = []
    for kind, all_texts in texts.items():
        theirs, ours = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            one_by_one = slow(all_texts[:few])
            theirs.append((time.perf_counter() - start) / few)
            start = time.perf_counter()
            found = fast(all_texts)
            ours.append((time.perf_counter() - start) / len(all_texts))
        off = max((one - other).abs().max().item() for one, other in zip(one_by_one, found, strict=False))
        angle = min(
            torch.cosine_similarity(one, other, dim=0).item() for one, other in zip(one_by_one, found, strict=False)
        )
        row = {
            "dtype": dtype, "what": kind, "n": len(all_texts), "reference": median(theirs), "fathom": median(ours),
            "largest difference": off, "smallest cosine": angle,
        }  # fmt: skip
        rows.append(row)
        print(
            f"| {dtype} | {kind} | {few} | {row['reference']:.4f} | {len(all_texts)} | {row['fathom']:.5f} "
            f"| {row['reference'] / row['fathom']:.1f} | {off:.1e} | {angle:.6f} |",
            flush=True,
        )
    return rows


def ranking() -> float:
    """Seconds to rank the 3,134 test queries against all 40,943 entities, filtered, the ten best listed."""
    import numpy as np
    import torch

    from fathom.formats import read
    from fathom.scoring.similarity import Space, rank_by_cosine

    data = read(DATA / "wn18rr")
    space = data.candidates["entities"]
    gold = [[space.position[answer] for answer in query.gold] for query in data.queries]
    known = [[space.position[answer] for answer in query.known] for query in data.queries]
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((len(space), 768), dtype=np.float32)
    asked = torch.from_numpy(draw.standard_normal((len(gold), 768), dtype=np.float32))
    start = time.perf_counter()
    rank_by_cosine(asked, Space(np.arange(len(space)), lambda rows: vectors[rows]), gold, known, top=10)
    seconds = time.perf_counter() - start
    print(f"\nranking {len(gold):,} queries against {len(space):,} candidates: {seconds:.1f} s", flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1024, help="as many as the probe asks in one piece")
    parser.add_argument("--entities", type=int, default=512)
    parser.add_argument("--reference", type=int, default=24, help="texts for the slow way")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], action="append")
    parser.add_argument("--json", type=Path, help="also keep the numbers here")
    chosen = parser.parse_args()
    texts = prompts(chosen.queries, chosen.entities)
    print(f"GPT-2-small shape, WN18RR; {platform.processor() or platform.machine()}, {os.cpu_count()} cores\n")
    print(
        "| dtype | what | n | reference, s each | n | Fathom, s each | ratio | largest difference | smallest cosine |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    rows = [
        row
        for dtype in chosen.dtype or ["float32", "bfloat16"]
        for row in compare(dtype, texts, min(chosen.reference, chosen.queries, chosen.entities), chosen.rounds)
    ]
    seconds = ranking()
    if chosen.json:
        chosen.json.write_text(json.dumps({"encoding": rows, "ranking": seconds}, indent=2))


if __name__ == "__main__":
    main()
