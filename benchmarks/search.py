"""The search for exact ranks among tens of thousands of entities, next to lm-pub-quiz."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from harness import DATA, Table, benchmark, gpt2, scratch

import fathom
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection

ALL_TRIPLES, DAY = 93_003, 86_400


def probed(model: Any, data: Any, probe: str, count: int, **options: Any) -> tuple[float, list[dict[str, Any]]]:
    """Return seconds per query and the predictions."""
    with scratch() as folder:
        start = time.perf_counter()
        result = fathom.probe(probe, model, data, folder / "run", limit=count, progress=False, **options)
        return (time.perf_counter() - start) / count, result.table().to_pylist()


@benchmark
def search(model: Path | None = None, queries: int = 20, sample: int = 64, full: int = 2) -> None:
    """Measure the search for exact ranks among all entities of WN18RR, and lm-pub-quiz.

    --model: a causal model, such as one of ``fathom plant``; by default GPT-2-small's shape with random weights.
    --sample: candidates that lm-pub-quiz scores, on the same model; its time is extrapolated to all candidates, and all
    times to the graph's 93,003 triples. --full: queries to search without pruning. Tokens are counted per query: run by
    the search, and of all statements one by one (naive).
    """
    from lm_pub_quiz import Evaluator

    data = fathom.read_data(DATA / "wn18rr")
    loaded = fathom.load_model(str(model)) if model else gpt2()
    names = list(data.candidates["entities"].names)
    print(f"{len(names)} candidates; {loaded.parameters:,} parameters")
    table = Table("", "s/query", "tokens/query", "times fewer than naive", "median rank", "all triples, days")
    for label, count, options in (
        ("exact search", queries, {}),
        ("exact search, --closing", queries, {"closing": True}),
        ("exact search, --max-rank 100", queries, {"max_rank": 100}),
        ("exact search, --reduction mean", queries, {"reduction": ("mean",)}),
        ("--no-prune", full, {"prune": False}),
    ):
        seconds, rows = probed(loaded, data, "statement", count, **options)
        run, naive = (sum(row[name] for row in rows) for name in ("tokens_run", "tokens_naive"))
        ranks = sorted(row["rank"] for row in rows if row["rank"])
        median = f"{ranks[len(ranks) // 2]:.0f}" if len(ranks) == len(rows) else "–"
        days = f"{seconds * ALL_TRIPLES / DAY:.2f}"
        table.row(label, f"{seconds:.2f}", f"{run / len(rows):.0f}", f"{naive / run:.1f}", median, days)
    query = select(data, Selection(limit=1)).data.queries[0]
    few_shot = probed(loaded, data, "statement", 1, max_rank=1)[1][0]["prompt"]
    template = few_shot.replace(f"\n({query.subject},", "\n([X],")
    evaluator = Evaluator.from_model(loaded.network, model_type="CLM", tokenizer=loaded.tokenizer)
    for batch in (1, 32):
        start, some = time.perf_counter(), names[:sample]
        evaluator.score_answers(
            template=template, answers=some, subject=query.subject, reduction="sum", batch_size=batch
        )
        seconds = (time.perf_counter() - start) / len(some) * len(names)
        days = f"{seconds * ALL_TRIPLES / DAY:.2f}"
        table.row(f"lm-pub-quiz, batch {batch} (extrapolated)", f"{seconds:.2f}", "–", "1.0", "–", days)
