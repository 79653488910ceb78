"""Link predictors that read texts: how fast SimKGC trains and ranks.

    python benchmarks/links.py train       # triples per second, beside a plain PyTorch loop on the same batches
    python benchmarks/links.py rank        # both questions of WN18RR's test triples among its 40,943 entities
    python benchmarks/links.py wikidata    # 100 questions among 4.6 million entities, streamed from a file

Encoders are MiniLM-shaped (6 layers, d = 384, 12 heads) with random weights, vectors random: speed does not depend on
what they know. WN18RR and the tokenizer are looked for in ``FATHOM_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from torch.nn.functional import cross_entropy, normalize
from transformers import BertConfig, BertTokenizerFast

from fathom.data.graph.links import split_links
from fathom.formats import read
from fathom.links.base import shuffled
from fathom.links.options import SimKgc
from fathom.links.simkgc import SHORT, Predictor
from fathom.scoring.similarity import Space, rank_by_cosine
from fathom.training.loop import grouped

DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
DIMENSIONS = 384
SHARD = 512
"""Questions that are ranked at a time, as in a run."""


# ---------------------------------------------------------------------------------------------------------- training


class Plain:
    """SimKGC straight from the paper and its authors' code: pad to the longest of the batch, encode every text."""

    def __init__(self, predictor: Predictor) -> None:
        graph, self.options, self.tokenizer = predictor.graph, predictor.options, predictor.tokenizer
        self.network = predictor.network  # so that both start from the same weights
        self.names, self.descriptions = (graph.entities.column(name).to_pylist() for name in ("name", "description"))
        relations = graph.relations.column("name").to_pylist()
        self.examples, self.right, linked = [], defaultdict(set), defaultdict(set)
        rows = graph.splits["train"]
        forward, backward = [], []
        columns = [c[rows.start : rows.stop].tolist() for c in (graph.head, graph.relation, graph.tail)]
        for h, r, t in zip(*columns, strict=True):
            forward.append((h, relations[r], t))
            backward.append((t, f"inverse {relations[r]}", h))
            linked[h].add(t)
            linked[t].add(h)
        self.examples = [*forward, *backward]
        for h, r, t in self.examples:
            self.right[h, r].add(t)
        most = self.options.neighbour_names
        self.neighbours = {entity: sorted(others - {entity})[:most] for entity, others in linked.items()}
        self.queue: list = []

    def text(self, entity: int, without: int) -> str:
        said = self.descriptions[entity]
        if len(said.split()) < SHORT:
            said += " " + " ".join(self.names[o] for o in self.neighbours.get(entity, ()) if o != without)
        return f"{self.names[entity]}: {said.removeprefix(f'{self.names[entity]} ')}"

    def encode(self, encoder, texts, others=None):
        batch = self.tokenizer(
            texts, others, padding=True, truncation=True, max_length=self.options.max_tokens, return_tensors="pt"
        )
        states = encoder(**batch).last_hidden_state
        real = batch["attention_mask"][:, :, None].float()
        return normalize((states * real).sum(1) / real.sum(1), dim=1)

    def wrong(self, batch, others, diagonal=False):
        """Which of the others' tails are no right answer to each of the batch's questions."""
        mask = torch.ones(len(batch), len(others), dtype=torch.bool)
        for i, (h, r, _) in enumerate(batch):
            for j, (_, _, t) in enumerate(others):
                if t in self.right[h, r] and not (diagonal and i == j):
                    mask[i, j] = False
        return mask

    def loss(self, rows):
        batch = [self.examples[row] for row in rows]
        head_texts, tail_texts = [self.text(h, t) for h, _, t in batch], [self.text(t, h) for h, _, t in batch]
        hr = self.encode(self.network.question, head_texts, [r for _, r, _ in batch])
        tails, heads = self.encode(self.network.answer, tail_texts), self.encode(self.network.answer, head_texts)
        scale, n = self.network.log_scale.exp(), len(batch)
        logits = (hr @ tails.T - self.options.margin * torch.eye(n)) * scale
        logits = logits.masked_fill(~self.wrong(batch, batch, diagonal=True), -1e4)
        rows_of_logits = [logits]
        for vectors, others in self.queue:
            earlier = hr @ vectors.T * scale * self.options.pre_batch_weight
            rows_of_logits.append(earlier.masked_fill(~self.wrong(batch, others), -1e4))
        own = (hr * heads).sum(1, keepdim=True) * scale
        itself = torch.tensor([[h in self.right[h, r]] for h, r, _ in batch])
        rows_of_logits.append(own.masked_fill(itself, -1e4))
        self.queue = [*self.queue, (tails.detach(), batch)][-self.options.pre_batches :]
        labels = torch.arange(n)
        return cross_entropy(torch.cat(rows_of_logits, 1), labels) + cross_entropy(logits.T, labels)


def predictor_of(data: Path, batch: int) -> Predictor:
    graph = read(data).graph
    with tempfile.TemporaryDirectory() as folder:
        BertTokenizerFast.from_pretrained(DATA / "tokenizers" / "bert-base-uncased").save_pretrained(folder)
        shape = {
            "hidden_size": DIMENSIONS,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
        }
        BertConfig(architectures=["BertModel"], **shape).save_pretrained(folder)
        options = SimKgc(weights=folder, init="random", batch_size=batch, device="cpu")
        return Predictor(graph, options, None, torch.device("cpu"))


def train(data: Path, batch: int, steps: int) -> None:
    ours = predictor_of(data, batch)
    plain = Plain(ours)
    batches = list(shuffled(len(ours.triples), batch, 0, 0))[: steps + 2]
    ours.network.eval()
    with torch.no_grad():
        apart = max(abs(ours.loss(rows).item() - plain.loss(rows).item()) for rows in batches[:4])
    ours.network.train()
    clock: dict[str, list[float]] = {"Fathom": [], "plain": []}
    cores: dict[str, list[float]] = {"Fathom": [], "plain": []}
    optimizer = torch.optim.AdamW(grouped(list(ours.network.parameters()), ours.options.weight_decay), lr=1e-5)
    for number, rows in enumerate(batches):  # in turn, so that a busy machine troubles both
        for name, loss_of in (("Fathom", ours.loss), ("plain", plain.loss)):
            start, worked = time.perf_counter(), time.process_time()
            loss_of(rows).backward()
            torch.nn.utils.clip_grad_norm_(ours.network.parameters(), ours.options.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if number >= 2:  # the first two warm up
                clock[name].append(time.perf_counter() - start)
                cores[name].append(time.process_time() - worked)
    middle = {name: (statistics.median(clock[name]), statistics.median(cores[name])) for name in clock}
    print(f"{data.name}, batches of {batch} triples, {steps} steps each, median")
    print("| loop | triples/s | times as fast as plain | core seconds/step | of plain |\n|---|---:|---:|---:|---:|")
    for name, (seconds, work) in middle.items():
        faster, less = middle["plain"][0] / seconds, work / middle["plain"][1]
        print(f"| {name} | {batch / seconds:.1f} | {faster:.2f} | {work:.2f} | {less:.0%} |")
    print(f"largest difference of the loss of four batches, without dropout: {apart:.1e}")


# ----------------------------------------------------------------------------------------------------------- ranking


def ranked(questions, space, gold, known) -> tuple[list, str]:
    """What is found, and how long it took; on a busy machine the time of the cores says more than the clock."""
    start, worked, found = time.perf_counter(), time.process_time(), []
    for first in range(0, len(questions), SHARD):
        some = slice(first, first + SHARD)
        found += rank_by_cosine(questions[some], space, gold[some], known[some], top=10)
    clock, cores = time.perf_counter() - start, time.process_time() - worked
    return found, f"{clock:.1f} s by the clock, {cores:.1f} s of a core"


def rank() -> None:
    graph = read(DATA / "wn18rr").graph
    links = split_links(graph, "test")
    random = np.random.default_rng(0)
    vectors = random.standard_normal((len(graph.entities), DIMENSIONS), dtype=np.float32)
    questions = torch.from_numpy(random.standard_normal((len(links), DIMENSIONS), dtype=np.float32))
    space = Space(np.arange(len(vectors)), lambda rows: vectors[rows])
    gold, known = [[place] for place in links.gold.tolist()], [places.tolist() for places in links.known]
    found, seconds = ranked(questions, space, gold, known)
    print(f"{len(found):,} filtered ranks among {len(vectors):,} entities, d = {DIMENSIONS}: {seconds}")
    # The same by sorting all scores, for some of the questions.
    several = range(0, len(links), 50)
    unit_vectors = normalize(torch.from_numpy(vectors), dim=1)
    for place in several:
        scores = unit_vectors @ normalize(questions[place], dim=0)
        right = scores[links.gold[place]].item()
        scores[known[place]] = -2.0
        in_order = torch.sort(scores).values
        least, most = (len(in_order) - torch.searchsorted(in_order, right + by).item() for by in (1e-6, -1e-6))
        assert least <= found[place].ranks.optimistic - 1 <= most, (found[place].ranks, least, most)
    print(f"{len(several)} of them are those that sorting gives (scores within 1e-6 of each other may change places)")


def wikidata(entities: int, questions: int) -> None:
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "vectors.npy"
        shape = (entities, DIMENSIONS)
        written = np.lib.format.open_memmap(file, mode="w+", dtype=np.float16, shape=shape)
        some = random.standard_normal((min(65536, entities), DIMENSIONS), dtype=np.float32).astype(np.float16)
        for start in range(0, entities, len(some)):  # mirrored anew each time: quick to make, and no two are alike
            signs = random.choice(np.array([-1, 1], dtype=np.float16), DIMENSIONS)
            written[start : start + len(some)] = some[: entities - start] * signs
        written.flush()
        del written
        vectors, before, peak = np.load(file, mmap_mode="r"), own_memory(), 0

        def take(rows):
            nonlocal peak
            peak = max(peak, own_memory())
            return vectors[rows].astype(np.float32)

        space = Space(np.arange(entities), take)
        asked = torch.from_numpy(random.standard_normal((questions, DIMENSIONS), dtype=np.float32))
        picked = random.integers(0, entities, (questions, 21)).tolist()
        found, seconds = ranked(asked, space, [row[:1] for row in picked], [row[1:] for row in picked])
        assert all(one.ranks is not None for one in found)
        size = file.stat().st_size / 2**30
        print(
            f"{questions} filtered ranks among {entities:,} entities from a file of {size:.1f} GiB: {seconds}, at "
            f"most {peak - before} MiB of memory of its own (the system's cache of the file not counted)"
        )


def own_memory() -> int:
    """MiB that are no mapped file's pages."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))) // 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "rank", "wikidata"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=DATA / "wn18rr", help="train: the graph")
    parser.add_argument("--batch", type=int, default=64, help="train: triples per step")
    parser.add_argument("--steps", type=int, default=5, help="train: steps that are measured")
    parser.add_argument("--entities", type=int, default=4_600_000, help="wikidata: how many")
    parser.add_argument("--questions", type=int, default=100, help="wikidata: how many")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    if chosen.what == "train":
        train(chosen.data, chosen.batch, chosen.steps)
    elif chosen.what == "rank":
        rank()
    else:
        wikidata(chosen.entities, chosen.questions)


if __name__ == "__main__":
    main()
