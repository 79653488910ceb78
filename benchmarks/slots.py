"""Cloze and ontology probes, compared with one forward pass per candidate; BERT-base's shape, random weights."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import DATA, Duration, Table, benchmark, bert, scratch, timed

import fathom
from fathom.data.queries import QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.engine.scoring import slots
from fathom.engine.scoring.tokens import Role, context_of, encode_masked, tokens_in_place

SIX_WAYS = {"masks": ("several", "one"), "reduction": ("mean", "max", "first")}


def by_loop(model: Any, data: QuerySet, queries: int) -> dict[str, list[float]]:
    """Return the scores of all candidates of the first queries, as the published scripts compute them.

    Mask as many tokens as the candidate has, run the network on that sequence, and read the candidate's tokens from
    the whole soft-max.
    """
    mask = model.tokenizer.mask_token_id
    scores: dict[str, list[float]] = {}
    for query in data.queries[:queries]:
        prompt = data.phrasings(query)[0].fill(query.subject, model.tokenizer.mask_token)
        [tokens] = encode_masked(model.tokenizer, [prompt])
        [at] = np.flatnonzero((tokens.roles == Role.ANSWER) & (tokens.ids == mask)).tolist()
        names = data.candidates[query.candidates].names
        scores[query.id] = []
        for ids in tokens_in_place(model.tokenizer, names, context_of(prompt.text[: prompt.answer[0].start])):
            sequence = [*tokens.ids[:at].tolist(), *[mask] * len(ids), *tokens.ids[at + 1 :].tolist()]
            with torch.inference_mode():
                logits = model.network(input_ids=torch.tensor([sequence])).logits[0, at : at + len(ids)]
                log_probs = torch.log_softmax(logits, dim=-1)
                scores[query.id].append(float(log_probs[torch.arange(len(ids)), torch.tensor(ids)].mean()))
    return scores


def probed(model: Any, probe: str, data: Path, **options: Any) -> tuple[Duration, list[dict[str, Any]], dict[str, Any]]:
    """Return the time, the predictions and the circumstances of a run."""
    with scratch() as folder:
        result, took = timed(lambda: fathom.probe(probe, model, data, folder / "run", progress=False, **options))
        return took, result.table().to_pylist(), result.folder.manifest["circumstances"]


@benchmark
def cloze_squad(queries: int = 3) -> None:
    """Compare the cloze probe on SQuAD with one pass per candidate; --queries: prompts to time the loop on."""
    model, folder = bert(), DATA / "lama" / "Squad"
    seconds, rows, _ = probed(model, "cloze", folder)
    fast = seconds.clock / len(rows)
    data = select(fathom.read_data(folder), Selection(pool="data")).data
    loop, took = timed(lambda: by_loop(model, data, queries))
    slow = took.clock / queries
    scores = {row["query_id"]: row["scores"] for row in rows}
    off = max(float(np.abs(np.array(scores[query]) - values).max()) for query, values in loop.items())
    table = Table(f"{len(rows)} prompts, {rows[0]['num_candidates']} entities", "s/prompt", "all, s", "times as fast")
    table.row("fathom probe cloze", f"{fast:.3f}", f"{fast * len(rows):.1f}", "1")
    table.row(f"one pass per candidate ({queries} prompts timed)", f"{slow:.3f}", "", f"{slow / fast:.0f}")
    print(f"largest difference of a score: {off:.1e} nats")


class Clock:
    """Adds up the seconds spent in a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any) -> Any:
        start = time.perf_counter()
        try:
            return self.function(*args)
        finally:
            self.seconds += time.perf_counter() - start


@benchmark
def cloze_relation(relation: str = "P19", prompts: int = 1000, candidates: int = 2000) -> None:
    """Break down the cloze probe's time: forward passes, the head at the masks, gathering of candidates."""
    model, lama = bert(), DATA / "lama"
    pools = (
        space for name in ("TREx", "Google_RE", "Squad") for space in fathom.read_data(lama / name).candidates.values()
    )
    more = sorted({name for space in pools for name in space.names})[:candidates]
    forward, head, pooling = Clock(model.hidden_at), Clock(slots.same_token_log_probs), Clock(slots._pooled)
    model.hidden_at, slots.same_token_log_probs, slots._pooled = forward, head, pooling
    with scratch() as folder:
        (folder / "more.txt").write_text("\n".join(more))
        options = {"relations": relation, "limit": prompts, "pool": "relation", "add_candidates": folder / "more.txt"}
        seconds, rows, _ = probed(model, "cloze", lama / "TREx", **options)
    total = seconds.clock
    print(f"{relation}: {len(rows)} prompts, {rows[0]['num_candidates']} candidates, {total:.1f} s")
    parts = {"forward passes": forward.seconds, "head at the masks": head.seconds, "gathering": pooling.seconds}
    parts["ranks, files and the rest"] = total - sum(parts.values())
    table = Table("part", "s", "share")
    for name, spent in parts.items():
        table.row(name, f"{spent:.1f}", f"{spent / total:.1%}")


@benchmark
def ontology_type(items: int = 500, candidates: int = 783, loop: int = 1) -> None:
    """Compare the ontology probe's type task with one pass per candidate.

    --loop: items to time the loop on. --candidates: classes to time it on, drawn at random, extrapolated to all 783.
    """
    model, folder = bert(), DATA / "ontoprobe"
    options = {"relations": "type", "templates": "0", "limit": items}
    seconds, predictions, circumstances = probed(model, "ontology", folder, batch_tokens=2048, **options)
    rows = {row["query_id"]: row for row in predictions}
    data = select(fathom.read_data(folder), Selection(relations=("type",), limit=items, subset="test")).data
    classes = data.candidates["classes"]
    places = sorted(random.Random(0).sample(range(len(classes)), min(candidates, len(classes))))
    data = replace(data, candidates={"classes": classes.keep(places)})
    scores, slow = timed(lambda: by_loop(model, data, loop))
    clock, cpu = (value * len(classes) / len(places) / loop for value in slow)
    off = max(float(np.abs(np.array(rows[query]["scores"])[places] - values).max()) for query, values in scores.items())
    count = len(rows)
    print(f"{count} items, {len(classes)} classes, {circumstances['sequences']} sequences, not {count * len(classes)}")
    table = Table("", "s/item", "processor, s/item", "500 items, s of the processor", "times as fast")
    table.row("fathom probe ontology", f"{seconds.clock / count:.3f}", f"{seconds.cpu / count:.3f}")
    table.row(
        f"one pass per candidate ({loop} × {len(places)} timed)", f"{clock:.2f}", f"{cpu:.2f}", f"{500 * cpu:.0f}"
    )
    print(f"largest difference of a score: {off:.1e} nats")


@benchmark
def ontology_table(limit: int = 40) -> None:
    """Time the whole memorising table, five tasks and all templates: one way of scoring, then six."""
    model, table = bert(), Table("scorings", "rows", "sequences", "s", "s of the processor")
    for name, ways in (("several masks, mean", {}), ("six ways", SIX_WAYS)):
        seconds, rows, circumstances = probed(model, "ontology", DATA / "ontoprobe", limit=limit, **ways)
        table.row(name, len(rows), circumstances["sequences"], f"{seconds.clock:.1f}", f"{seconds.cpu:.1f}")


@benchmark
def ontology_soft(hidden: int = 128, epochs: int = 100) -> None:
    """Time a learnt template of the type task: 10 items, four layers."""
    model = bert(4, hidden)
    seconds, _, _ = probed(model, "ontology", DATA / "ontoprobe", soft=True, relations="type", limit=1, epochs=epochs)
    print(f"4 layers of {hidden}, {epochs} epochs: {seconds}")
