"""Link predictors that read texts: how fast SimKGC trains and ranks. Weights and vectors are random."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import torch
from harness import DATA, Duration, Table, benchmark, network, scratch, timed, tokenizer
from torch.nn.functional import cross_entropy, normalize
from transformers import BertConfig

import fathom
import fathom_kgc
from fathom.data.graph.links import split_links
from fathom.engine.scoring.similarity import VectorSpace, rank_by_cosine
from fathom.training.loop import grouped
from fathom_kgc.links.base import shuffled
from fathom_kgc.links.options import SimKgc
from fathom_kgc.links.simkgc import SHORT, Predictor

DIMENSIONS = 384
SHARD = 512
"""Queries that are ranked at a time, as in a run."""


# ---------------------------------------------------------------------------------------------------------- training


class PlainSimKgc:
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
        """Return a mask of the others' tails that are wrong answers to each query of the batch."""
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
    graph = fathom.read_data(data).graph
    with scratch() as folder:
        tokenizer("bert-base-uncased").save_pretrained(folder)
        shape = {
            "hidden_size": DIMENSIONS,
            "num_hidden_layers": 6,
            "num_attention_heads": 12,
            "intermediate_size": 1536,
        }
        BertConfig(architectures=["BertModel"], **shape).save_pretrained(folder)
        options = SimKgc(weights=str(folder), init="random", batch_size=batch, device="cpu")
        return Predictor(graph, options, None, torch.device("cpu"))


@benchmark
def links_train(data: Path = DATA / "wn18rr", batch: int = 64, steps: int = 5, threads: int = 2) -> None:
    """Compare SimKGC's training with a plain PyTorch loop on the same batches; MiniLM's shape."""
    torch.set_num_threads(threads)
    ours = predictor_of(data, batch)
    plain = PlainSimKgc(ours)
    batches = list(shuffled(len(ours.triples), batch, 0, 0))[: steps + 2]
    ours.network.eval()
    with torch.no_grad():
        apart = max(abs(ours.loss(rows).item() - plain.loss(rows).item()) for rows in batches[:4])
    ours.network.train()
    times: dict[str, list[Duration]] = {"Fathom": [], "plain": []}
    optimizer = torch.optim.AdamW(grouped(list(ours.network.parameters()), ours.options.weight_decay), lr=1e-5)

    def step(loss: torch.Tensor) -> None:
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ours.network.parameters(), ours.options.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for rows in batches:  # in turns, so that a busy machine affects both
        for name, loss_of in (("Fathom", ours.loss), ("plain", plain.loss)):
            times[name].append(timed(lambda loss_of=loss_of, rows=rows: step(loss_of(rows)))[1])
    clock, cpu = ({name: median(one[place] for one in own[2:]) for name, own in times.items()} for place in (0, 1))
    print(f"{data.name}, batches of {batch} triples, {steps} steps each after two, median")
    table = Table("loop", "triples/s", "times as fast as plain", "core seconds/step", "of plain")
    for name in times:
        faster, less = clock["plain"] / clock[name], cpu[name] / cpu["plain"]
        table.row(name, f"{batch / clock[name]:.1f}", f"{faster:.2f}", f"{cpu[name]:.2f}", f"{less:.0%}")
    print(f"largest difference of the loss of four batches, without dropout: {apart:.1e}")


CHECKPOINTS = 4
"""In a call: what a stop loses is no more than a quarter of it."""


class OutOfTime(Exception):
    """The call has had its minutes."""


class Clock:
    """Counts triples, and ends the call in time."""

    def __init__(self, minutes: float) -> None:
        self.begun, self.until = time.monotonic(), time.monotonic() + 60 * minutes
        self.first: tuple[float, int] | None = None
        self.last = self.total = 0

    def __call__(self, done: int, total: int) -> None:
        """After each step. :raises OutOfTime: the minutes are over."""
        now = time.monotonic()
        self.first = self.first or (now, done)
        self.last, self.total = done, total
        if now > self.until:
            raise OutOfTime

    def steps_per_second(self) -> float:
        """Since the first step of the call, without what loading took."""
        assert self.first is not None
        return (self.last - self.first[1]) / max(time.monotonic() - self.first[0], 1e-9)


def report(clock: Clock, triples: int, epochs: int, precision: str) -> None:
    """Print the progress of the call."""
    if clock.first is None or clock.last == clock.first[1]:
        print("fewer than two steps: give more --minutes, or a smaller --batch-size")
        return
    per_second = clock.steps_per_second() * triples * epochs / clock.total
    rest = (clock.total - clock.last) / max(clock.steps_per_second(), 1e-9)
    print(f"{clock.last:,} of {clock.total:,} steps, {clock.last / clock.total * epochs:.2f} of {epochs} epochs")
    speed = f"{per_second:,.{1 if per_second > 1 else 3}f} triples per second, {precision}"
    print(f"{speed}; the rest would take {rest / 60:,.1f} minutes")
    if torch.cuda.is_available():
        print(f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB on {torch.cuda.get_device_name()}")


@benchmark
def links_full(
    data: Path,
    out: Path,
    words: str = "bert-base-uncased",
    minutes: float = 9,
    epochs: int = 10,
    batch_size: int = 1024,
    precision: Literal["float32", "bfloat16", "float16"] = "float32",
) -> None:
    """Train and evaluate SimKGC on a whole graph with BERT-base's shape, in calls of a few minutes.

    The same command, again and again, resumes from the last checkpoint and ends with the numbers of the test triples. A
    call prints triples per second, memory of the GPU, and how long the rest would take. On a GPU take bfloat16; on a
    processor a call shows the share of an epoch.
    """
    graph, bert = fathom.read_data(data), out / "bert"
    if not (bert / "config.json").exists():
        pieces = tokenizer(words)
        network("BertModel", vocab_size=len(pieces)).save_pretrained(bert)
        pieces.save_pretrained(bert)
    clock, triples = Clock(minutes), len(graph.graph.training)
    options = {"weights": str(bert), "epochs": epochs, "batch_size": batch_size, "precision": precision}
    try:
        ended = fathom_kgc.train_links(
            "simkgc", graph, out / "model", clock, checkpoint_minutes=minutes / CHECKPOINTS, **options
        )["ended"]
        report(clock, triples, epochs, precision)
        print(json.dumps(ended))
        result = fathom_kgc.evaluate_links(out / "model", graph, out / "run", Clock(minutes))
        print(result.summary().to_text())
    except OutOfTime:
        report(clock, triples, epochs, precision)
        print("out of time: the same command resumes")


# ----------------------------------------------------------------------------------------------------------- ranking


def ranked(questions, space, gold, known) -> tuple[list, Duration]:
    """Rank shard by shard, as a run does. :returns: results, and the time."""
    shards = [slice(first, first + SHARD) for first in range(0, len(questions), SHARD)]
    return timed(
        lambda: [
            one for some in shards for one in rank_by_cosine(questions[some], space, gold[some], known[some], top=10)
        ]
    )


@benchmark
def links_rank(threads: int = 2) -> None:
    """Time both queries of WN18RR's test triples among its 40,943 entities, vectors random."""
    torch.set_num_threads(threads)
    graph = fathom.read_data(DATA / "wn18rr").graph
    links = split_links(graph, "test")
    random = np.random.default_rng(0)
    vectors = random.standard_normal((len(graph.entities), DIMENSIONS), dtype=np.float32)
    questions = torch.from_numpy(random.standard_normal((len(links), DIMENSIONS), dtype=np.float32))
    space = VectorSpace(np.arange(len(vectors)), lambda rows: vectors[rows])
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


@benchmark
def links_wikidata(entities: int = 4_600_000, questions: int = 100, threads: int = 2) -> None:
    """Time ranks among 4.6 million entities, streamed from a file of random vectors."""
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    with scratch() as folder:
        file = folder / "vectors.npy"
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

        space = VectorSpace(np.arange(entities), take)
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
