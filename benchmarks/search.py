"""Exact ranks among all entities of WN18RR: what the search costs, beside lm-pub-quiz and the embedding probe.

    python benchmarks/search.py --model models/wn-large --queries 100     # a model planted by benchmarks/plant_graph.py
    python benchmarks/search.py --queries 4                               # GPT-2-small shape, random weights

Tokens are counted per query: run by the search (with and without pruning), and what a tool runs that takes every
statement by itself. lm-pub-quiz scores a sample of the candidates of one query on the same model; its time for all of
them, and for all 93,003 triples of the graph, is extrapolated as in the DEER paper. The embedding probe's time is that
of its queries plus its share of the entities.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
ALL_TRIPLES, DAY = 93_003, 86_400


def network_and_tokenizer(folder: str | None):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    if folder:
        return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config()).eval(), GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")


def asked(model, data, probe: str, count: int, **options):
    """:returns: seconds per query and the predictions."""
    from fathom.probes import PROBES
    from fathom.run import run

    chosen = PROBES.find(probe).options(limit=count, **options)
    with tempfile.TemporaryDirectory() as out:
        start = time.perf_counter()
        folder = run(probe, model, data, chosen, Path(out) / "run")
        return (time.perf_counter() - start) / count, folder.predictions().to_pylist()


def lm_pub_quiz_seconds(folder: str | None, template: str, subject: str, names: list[str], batch: int) -> float:
    """Per candidate."""
    from lm_pub_quiz import Evaluator

    network, tokenizer = network_and_tokenizer(folder)
    evaluator = Evaluator.from_model(network, model_type="CLM", tokenizer=tokenizer)
    start = time.perf_counter()
    evaluator.score_answers(template=template, answers=names, subject=subject, reduction="sum", batch_size=batch)
    return (time.perf_counter() - start) / len(names)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder of a causal model; by default the shape of GPT-2-small")
    parser.add_argument("--queries", type=int, default=20)
    parser.add_argument("--sample", type=int, default=64, help="candidates that lm-pub-quiz scores")
    parser.add_argument("--full", type=int, default=2, help="queries to search without pruning")
    parser.add_argument("--embedding", action="store_true", help="time the embedding probe as well (all entities)")
    chosen = parser.parse_args()

    from fathom.data.selection.filters import Selection, select
    from fathom.formats import read
    from fathom.models.loading import wrap

    data = read(DATA / "wn18rr")
    model = wrap(*network_and_tokenizer(chosen.model))
    model.refuses_cache()
    names = list(data.candidates["entities"].names)
    lines = []
    for label, count, options in (
        ("exact search", chosen.queries, {}),
        ("exact search, closing sign", chosen.queries, {"closing": True}),
        ("exact search, --max-rank 100", chosen.queries, {"max_rank": 100}),
        ("exact search, mean", chosen.queries, {"reduction": ("mean",)}),
        ("without pruning", chosen.full, {"prune": False}),
    ):
        seconds, rows = asked(model, data, "statement", count, **options)
        run, naive = (sum(row[name] for row in rows) for name in ("tokens_run", "tokens_naive"))
        ranks = sorted(row["rank"] for row in rows if row["rank"])
        median = ranks[len(ranks) // 2] if len(ranks) == len(rows) else float("nan")
        lines.append((label, seconds, run / len(rows), naive / run, median))
    query = select(data, Selection(limit=1)).data.queries[0]
    few_shot = asked(model, data, "statement", 1, max_rank=1)[1][0]["prompt"]
    template = few_shot.replace(f"\n({query.subject},", "\n([X],")
    for batch in (1, 32):
        each = lm_pub_quiz_seconds(chosen.model, template, query.subject, names[: chosen.sample], batch)
        lines.append((f"lm-pub-quiz, batch {batch} (extrapolated)", each * len(names), None, 1.0, None))
    print(f"{len(names)} candidates; {model.parameters:,} parameters")
    print("| | s/query | tokens/query | times fewer than naive | median rank | all triples, days |")
    print("|---|---:|---:|---:|---:|---:|")
    for label, seconds, tokens, fewer, median in lines:
        shown = "–" if tokens is None else f"{tokens:.0f}"
        rank = "–" if median is None else f"{median:.0f}"
        print(f"| {label} | {seconds:.2f} | {shown} | {fewer:.1f} | {rank} | {seconds * ALL_TRIPLES / DAY:.2f} |")
    if chosen.embedding:
        seconds, _ = asked(model, data, "embedding", len(data.queries))
        print(f"embedding probe, all {len(data.queries)} test queries and all entities: {seconds:.3f} s/query")


if __name__ == "__main__":
    main()
