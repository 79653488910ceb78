"""Running servers against the same model loaded here: scores, ranks, seconds, calls.

    python benchmarks/servers.py --model FOLDER --data geography --server vllm=http://127.0.0.1:8000/v1 \\
        --server llama.cpp=http://127.0.0.1:8080/v1 [--name MODEL] [--limit 20]

Each server must have been started with the weights of FOLDER, in float32, under the name that --name says.
``python -m tests.gguf_model FOLDER FILE`` writes them for llama.cpp's kind.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import fathom

ASKED: dict[str, dict[str, Any]] = {
    "statement": {"templates": (0,), "score": ("full", "conditional")},
    "vocabulary": {"shots": 2},
    "choice": {"options": 4, "score": ("letter", "text-sum")},
}


def main() -> None:
    said = argparse.ArgumentParser(description="Servers against the model itself.")
    said.add_argument("--model", required=True, help="folder of the weights")
    said.add_argument("--name", default="tiny", help="what the servers call it")
    said.add_argument("--data", default="geography")
    said.add_argument("--limit", type=int, default=20)
    said.add_argument("--server", action="append", required=True, help="NAME=URL; several times")
    given = said.parse_args()
    print(
        "| server | probe | scores | largest difference, nats | other ranks | unscored | s here | s there | answers |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for probe, options in ASKED.items():
        for server in given.server:
            name, url = server.split("=", 1)
            compare(name, url, probe, options, given)


def compare(name: str, url: str, probe: str, options: dict[str, Any], given: argparse.Namespace) -> None:
    asked = {"data": given.data, "limit": given.limit, "progress": False} | options
    try:
        there, seconds = timed(probe, given.name, server=url, tokenizer=given.model, **asked)
    except fathom.BadInput:  # llama-cpp-python tells nothing of a first token
        asked["score"] = tuple(score for score in asked.get("score", ()) if score != "full")
        name = f"{name}, without full"
        there, seconds = timed(probe, given.name, server=url, tokenizer=given.model, **asked)
    here, own = timed(probe, given.model, **asked)
    rows, others = ({key(row): row for row in run.folder.predictions().to_pylist()} for run in (here, there))
    assert rows.keys() == others.keys()
    both = [(rows[at], others[at]) for at in rows if rows[at]["unscored"] is None and others[at]["unscored"] is None]
    unscored = sum(row["unscored"] is not None for row in others.values())
    pairs = [np.array([one["scores"], other["scores"]], dtype=float) for one, other in both]
    scores = np.concatenate(pairs, axis=1)
    scores = scores[:, np.isfinite(scores).all(axis=0)]
    ranks = sum(one["rank"] != other["rank"] for one, other in both)
    answers = there.folder.manifest["circumstances"]["journal"]["answers"]
    off = np.abs(scores[0] - scores[1]).max()
    found = (name, probe, scores.shape[1], f"{off:.0e}", f"{ranks} of {len(both)}", unscored)
    print("|", *(f"{cell} |" for cell in (*found, f"{own:.1f}", f"{seconds:.1f}", answers)), flush=True)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["query_id"], row["template"], row["scoring"]


def timed(probe: str, model: str, **options: Any) -> tuple[Any, float]:
    begun = time.perf_counter()
    return fathom.probe(probe, model, **options), time.perf_counter() - begun


if __name__ == "__main__":
    main()
