"""Models on a server and loaded here."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Table, benchmark

import fathom

DECIDED = ("rank", "rank_optimistic", "rank_pessimistic", "top_ids", "rank_above", "unscored")
PROBES: dict[str, dict[str, Any]] = {
    "statement": {"templates": (0,), "score": ("full", "conditional")},
    "vocabulary": {"shots": 2},
    "choice": {"options": 4, "score": ("letter", "text-sum")},
}


@benchmark
def servers(model: Path, server: tuple[str, ...], name: str = "tiny", data: str = "geography", limit: int = 20) -> None:
    """Compare running model servers with the same model loaded here.

    --server NAME=URL,NAME=URL: each must serve the weights of the folder --model, in float32, under the name --name.
    `python -m tests.gguf_model FOLDER FILE` writes them for llama.cpp's kind.
    """
    columns = ("largest difference, nats", "other ranks", "unscored", "s here", "s there", "answers")
    table = Table("server", "probe", "scores", *columns)
    for probe, options in PROBES.items():
        for title, url in (entry.split("=", 1) for entry in server):
            shared = {"data": data, "limit": limit, "progress": False} | options
            far = {"server": url, "tokenizer": str(model)}
            try:
                there, seconds = timed_probe(probe, name, **shared, **far)
            except fathom.BadInput:  # llama-cpp-python does not return a score of the first token
                shared["score"] = tuple(score for score in shared.get("score", ()) if score != "full")
                title = f"{title}, without full"  # noqa: PLW2901
                there, seconds = timed_probe(probe, name, **shared, **far)
            here, seconds_here = timed_probe(probe, str(model), **shared)
            answers = there.folder.manifest["circumstances"]["journal"]["answers"]
            table.row(title, probe, *compared(here, there), f"{seconds_here:.1f}", f"{seconds:.1f}", answers)


def timed_probe(probe: str, model: str, **options: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return fathom.probe(probe, model, **options), time.perf_counter() - start


def compared(here: Any, there: Any) -> tuple[object, ...]:
    """Return the number of scores, their largest difference, other ranks and unscored predictions."""
    rows, others = ({key(row): row for row in run.folder.predictions().to_pylist()} for run in (here, there))
    assert rows.keys() == others.keys()
    both = [(rows[at], others[at]) for at in rows if rows[at]["unscored"] is None and others[at]["unscored"] is None]
    scores = np.concatenate([np.array([left["scores"], right["scores"]], dtype=float) for left, right in both], axis=1)
    scores = scores[:, np.isfinite(scores).all(axis=0)]
    ranks = sum(left["rank"] != right["rank"] for left, right in both)
    unscored = sum(row["unscored"] is not None for row in others.values())
    return scores.shape[1], f"{np.abs(scores[0] - scores[1]).max():.0e}", f"{ranks} of {len(both)}", unscored


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["query_id"], row["template"], row["scoring"]
