"""The cloze probe beside a loop of one forward pass per candidate, on a BERT-base shape with random weights.

    python benchmarks/cloze.py squad --queries 3      # all of SQuAD; the loop on 3 of its prompts, extrapolated
    python benchmarks/cloze.py relation --relation P19 --prompts 1000 --candidates 2000

The loop masks as many tokens as the candidate has, runs the network on that one sequence, and reads the candidate's
tokens off the whole soft-max: what the published scripts do. ``relation`` prints where the probe's time goes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

from fathom.data.queries import QuerySet
from fathom.data.selection.filters import Selection, select
from fathom.formats import read
from fathom.models.base import Attention, Identity
from fathom.models.local import LocalModel
from fathom.probes.options import ClozeOptions
from fathom.run import run
from fathom.scoring import slots
from fathom.scoring.names import tokens_in_place, what_counts
from fathom.scoring.tokens import Role, encode_masked

os.environ.setdefault("HF_HUB_OFFLINE", "1")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")


def bert_base() -> LocalModel:
    torch.manual_seed(0)
    tokenizer = BertTokenizerFast.from_pretrained(DATA / "tokenizers" / "bert-base-cased", do_lower_case=False)
    network = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer)))
    return LocalModel(network, tokenizer, Attention.BIDIRECTIONAL, Identity("bert-base shape", None, "float32", "0"))


def by_loop(model: LocalModel, data: QuerySet, queries: int) -> tuple[float, dict[str, list[float]]]:
    """Seconds per prompt, and the scores of all candidates."""
    mask = model.tokenizer.mask_token_id
    scores: dict[str, list[float]] = {}
    start = time.perf_counter()
    for query in data.queries[:queries]:
        prompt = data.phrasings(query)[0].fill(query.subject, model.tokenizer.mask_token)
        [tokens] = encode_masked(model.tokenizer, [prompt])
        [at] = np.flatnonzero((tokens.roles == Role.ANSWER) & (tokens.ids == mask)).tolist()
        names = data.candidates[query.candidates].names
        own: list[float] = []
        for ids in tokens_in_place(model.tokenizer, names, what_counts(prompt.text[: prompt.answer[0].start])):
            sequence = [*tokens.ids[:at].tolist(), *[mask] * len(ids), *tokens.ids[at + 1 :].tolist()]
            with torch.inference_mode():
                logits = model.network(input_ids=torch.tensor([sequence])).logits[0, at : at + len(ids)]
                log_probs = torch.log_softmax(logits, dim=-1)
                own.append(float(log_probs[torch.arange(len(ids)), torch.tensor(ids)].mean()))
        scores[query.id] = own
    return (time.perf_counter() - start) / queries, scores


def squad(model: LocalModel, queries: int) -> None:
    data = read(DATA / "lama" / "Squad")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        rows = run("cloze", model, data, ClozeOptions(), Path(folder) / "run").predictions().to_pylist()
        ours = (time.perf_counter() - start) / len(rows)
    theirs, scores = by_loop(model, select(data, Selection(pool="data")).data, queries)
    of_query = {row["query_id"]: row["scores"] for row in rows}
    worst = max(float(np.abs(np.array(of_query[id_]) - own).max()) for id_, own in scores.items())
    print(f"{len(rows)} prompts, {rows[0]['num_candidates']} entities")
    print(f"| fathom probe cloze | {ours:.3f} s/prompt | {ours * len(rows):.1f} s for all |")
    print(f"| one pass per candidate ({queries} prompts timed) | {theirs:.3f} s/prompt | {theirs / ours:.1f} times |")
    print(f"largest difference of a score: {worst:.1e} nats")


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


def relation(model: LocalModel, name: str, prompts: int, candidates: int) -> None:
    """Where the time goes: the forward passes, the head at the masks, and the gathering of candidates."""
    data = read(DATA / "lama" / "TREx")
    data = select(data, Selection(relations=(name,), limit=prompts)).data
    own = data.candidates[data.queries[0].candidates]
    folders = (read(DATA / "lama" / name) for name in ("TREx", "Google_RE", "Squad"))
    everyone = {name for other in folders for space in other.candidates.values() for name in space.names}
    more = sorted(everyone - set(own.names))[: max(0, candidates - len(own))]
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "more.txt"
        listed.write_text("\n".join(more))
        forward, head, pooling = Clock(model.hidden_at), Clock(slots.same_token_log_probs), Clock(slots._pooled)
        model.hidden_at, slots.same_token_log_probs, slots._pooled = forward, head, pooling  # type: ignore[assignment]
        start = time.perf_counter()
        options = ClozeOptions(pool="relation", add_candidates=listed)
        rows = run("cloze", model, data, options, Path(folder) / "run").predictions()
        seconds = time.perf_counter() - start
    print(f"{name}: {len(rows)} prompts, {rows['num_candidates'][0]} candidates, {seconds:.1f} s")
    for what, part in (("forward passes", forward), ("head at the masks", head), ("gathering", pooling)):
        print(f"| {what} | {part.seconds:.1f} s | {part.seconds / seconds:.1%} |")
    rest = seconds - forward.seconds - head.seconds - pooling.seconds
    print(f"| all else (ranks, files) | {rest:.1f} s | {rest / seconds:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["squad", "relation"])
    parser.add_argument("--queries", type=int, default=3, help="prompts to time the loop on")
    parser.add_argument("--relation", default="P19")
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--candidates", type=int, default=2000)
    chosen = parser.parse_args()
    model = bert_base()
    if chosen.what == "squad":
        squad(model, chosen.queries)
    else:
        relation(model, chosen.relation, chosen.prompts, chosen.candidates)


if __name__ == "__main__":
    main()
