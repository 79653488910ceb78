"""Tens of thousands of entities: exact search, embeddings, graphs of millions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from harness import DATA, Table, benchmark, gpt2, in_turns, medians, network, own_process, peak, scratch, timed
from harness import tokenizer as excerpt_of

import fathom
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection

ALL_TRIPLES, DAY = 93_003, 86_400


# -------------------------------------------------------------------------------------------------------------- search


def probed(model: Any, data: Any, probe: str, count: int, **options: Any) -> tuple[float, list[dict[str, Any]]]:
    """Return seconds per query and the predictions."""
    with scratch() as folder:
        start = time.perf_counter()
        result = fathom.probe(probe, model, data, folder / "run", limit=count, progress=False, **options)
        return (time.perf_counter() - start) / count, result.table().to_pylist()


@benchmark
def search(model: Path | None = None, queries: int = 20, sample: int = 64, full: int = 2) -> None:
    """Measure the search for exact ranks among all entities of WN18RR, and lm-pub-quiz.

    --model: a causal model, such as one of plant-graph; by default GPT-2-small's shape with random weights. --sample:
    candidates that lm-pub-quiz scores, on the same model; its time is extrapolated to all candidates, and all times to
    the graph's 93,003 triples. --full: queries to search without pruning. Tokens are counted per query: run by the
    search, and of all statements one by one (naive).
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


# ---------------------------------------------------------------------------------------------------------- embeddings


def prompts(queries: int, entities: int) -> dict[str, list[str]]:
    """Return few-shot prompts of some test queries of WN18RR and texts of some entities, drawn at random."""
    from fathom.probes.base import few_shot_lines
    from fathom.probes.embedding import tail_prompt, tail_template
    from fathom.probes.options import EmbeddingOptions

    data = fathom.read_data(DATA / "wn18rr")
    lines, space = few_shot_lines(EmbeddingOptions(), data), data.candidates["entities"]
    template = tail_template("deer")
    draw = random.Random(0)
    some = draw.sample(range(len(data.queries)), min(queries, len(data.queries)))
    places = draw.sample(range(len(space)), min(entities, len(space)))
    return {
        "query": [lines.prompt(data.queries[place]) for place in some],
        "entity": [tail_prompt(template, space.names[place], space.descriptions[place]) for place in places],
    }


def one_by_one(model: Any, texts: list[str]) -> list[Any]:
    """The DEER paper's code: the last token's last hidden state of one prompt at a time, nothing shared."""
    import torch

    vectors = []
    with torch.no_grad():
        for text in texts:
            inputs = model.tokenizer(model.tokenizer.bos_token + text, return_tensors="pt")
            vectors.append(model.network(**inputs, output_hidden_states=True).hidden_states[-1][0, -1].float())
    return vectors


@benchmark
def deer(
    queries: int = 1024,
    entities: int = 512,
    reference: int = 24,
    rounds: int = 3,
    dtypes: tuple[str, ...] = ("float32", "bfloat16"),
) -> None:
    """Compare the embedding probe with the DEER paper's code on WN18RR, and time the ranking.

    GPT-2-small's shape. --reference: texts for the reference way, which runs one prompt at a time.
    """
    import torch

    from fathom.engine.scoring.memory import Budget
    from fathom.engine.scoring.vectors import Pooling, text_vectors

    texts = prompts(queries, entities)
    table = Table("dtype", "text", "reference, s each", "Fathom, s each", "ratio", "largest difference", "least cosine")
    for dtype in dtypes:
        words, precision = excerpt_of("gpt2"), getattr(torch, dtype)
        plain, model = (fathom.wrap_model(network("GPT2LMHeadModel").to(precision), words) for _ in range(2))
        model.refuses_cache()  # the self-check happens once per model

        def vectors(some: list[str], model: Any = model) -> list[Any]:
            start = model.tokenizer.bos_token_id
            return list(text_vectors(model, some, start, Pooling.LAST, Budget(None, model.device)).vectors.float())

        one_by_one(plain, texts["query"][:2]), vectors(texts["query"][:2])  # what is set up at the first call
        for kind, every in texts.items():
            few = every[:reference]
            ways: dict[str, Callable[[], Any]] = {"reference": lambda few=few, plain=plain: one_by_one(plain, few)}
            ways["Fathom"] = lambda every=every, vectors=vectors: vectors(every)
            seconds, results = in_turns(ways, rounds, time.perf_counter)
            slow, fast = medians(seconds).values()
            slow, fast = slow / len(few), fast / len(every)
            pairs = list(zip(*results.values(), strict=False))
            off = max((one - other).abs().max().item() for one, other in pairs)
            cosine = min(torch.cosine_similarity(one, other, dim=0).item() for one, other in pairs)
            row = (f"{slow:.4f}", f"{fast:.5f}", f"{slow / fast:.1f}", f"{off:.1e}", f"{cosine:.6f}")
            table.row(dtype, f"{kind} ({len(few)}, {len(every)})", *row)
    rank_all()


def rank_all() -> None:
    """Rank the 3,134 test queries of WN18RR against all 40,943 entities, filtered, the ten best listed."""
    import torch

    from fathom.engine.scoring.similarity import VectorSpace, rank_by_cosine

    data = fathom.read_data(DATA / "wn18rr")
    space = data.candidates["entities"]
    gold = [[space.position[answer] for answer in query.gold] for query in data.queries]
    known = [[space.position[answer] for answer in query.known] for query in data.queries]
    draw = np.random.default_rng(0)
    vectors = draw.standard_normal((len(space), 768), dtype=np.float32)
    states = torch.from_numpy(draw.standard_normal((len(gold), 768), dtype=np.float32))
    every = VectorSpace(np.arange(len(space)), lambda rows: vectors[rows])
    _, took = timed(lambda: rank_by_cosine(states, every, gold, known, top=10))
    print(f"ranking {len(gold):,} queries against {len(space):,} candidates: {took}")


# ------------------------------------------------------------------------------------------------------ graphs of size

RELATIONS, HELD_OUT = 500, 100_000
SYLLABLES = np.array(
    ["ka", "lo", "mir", "ten", "su", "ra", "bel", "o", "vin", "dar", "qu", "esh", "no", "ti", "gar", "pel"]
)


def words(numbers: np.ndarray, syllables: int) -> pa.Array:
    """Return a word for each number; equal numbers give equal words."""
    parts = [pa.array(SYLLABLES[(numbers >> (4 * place)) & 15]) for place in range(syllables)]
    return pc.binary_join_element_wise(*parts, "")


def ids(letter: str, count: int) -> pa.Array:
    """Return letter0, letter1, …"""
    return pc.binary_join_element_wise(letter, pc.cast(pa.array(np.arange(count)), pa.string()), "")


def tails(rows: np.ndarray, entities: int, generator: np.random.Generator) -> np.ndarray:
    """Return a tail for each row: half of them few and popular, the others any."""
    popular = (generator.pareto(0.5, len(rows)) * 100).astype(np.int64) % entities
    return np.where(generator.random(len(rows)) < 0.5, popular, generator.integers(0, entities, len(rows)))


def write(file: Path, *columns: pa.Array) -> None:
    """Write tab-separated lines."""
    table = pa.table({str(place): column for place, column in enumerate(columns)})
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pyarrow.csv.write_csv(table, file, options)


@benchmark
def graph_size(entities: int = 5_000_000, triples: int = 20_000_000, folder: Path | None = None) -> None:
    """Measure reading a large random knowledge graph, from text and then from its cache.

    The claim: 5 million entities and 20 million triples stay under 6 GB and load from the cache in seconds.
    """
    with scratch(folder) as place:
        graph = place / "graph"
        own_process("_make-graph", "--folder", graph, "--entities", entities, "--triples", triples)
        print(f"{sum(file.stat().st_size for file in graph.iterdir()) / 2**30:.2f} GiB of text")
        for step in ("from text", "from the cache"):
            print(f"{step}: ", end="", flush=True)
            own_process("_read-graph", "--folder", graph, FATHOM_CACHE=place / "cache")


@benchmark
def _make_graph(folder: Path, entities: int, triples: int) -> None:
    """Ids like Wikidata's, names of two words, a description of ten."""
    folder.mkdir()
    generator, numbers, rows = np.random.default_rng(0), np.arange(entities), np.arange(triples)

    def any_words(syllables: int) -> pa.Array:
        return words(generator.integers(0, 1 << 16, entities), syllables)

    entity_ids, relations = ids("Q", entities), ids("P", RELATIONS)
    names = pc.binary_join_element_wise(words(numbers, 3), any_words(3), " ")
    texts = pc.binary_join_element_wise(*(any_words(2) for _ in range(5)), " ")
    write(folder / "entity2text.txt", entity_ids, names, texts)
    write(folder / "relation2text.txt", relations, words(np.arange(RELATIONS), 3))
    tail, relation = tails(rows, entities, generator), generator.integers(0, RELATIONS, triples)
    for name, part in (("train", rows[HELD_OUT:]), ("test", rows[:HELD_OUT])):
        columns = entity_ids.take(part % entities), relations.take(relation[part]), entity_ids.take(tail[part])
        write(folder / f"{name}.tsv", *columns)


@benchmark
def _read_graph(folder: Path) -> None:
    """Read, hash, and choose 500 queries."""
    before = peak()
    data, read = timed(lambda: fathom.read_data(folder))
    digest, hashed = timed(lambda: data.content_hash)
    chosen, choosing = timed(lambda: select(data, Selection(limit=500, candidates="asked")).data)
    print(
        f"{len(data.graph.entities):,} entities, {len(data.graph):,} triples: read {read.clock:.1f} s, "
        f"hash {hashed.clock:.1f} s ({digest}), {len(chosen.queries)} queries and their "
        f"{len(chosen.candidates['entities'])} candidates {choosing.clock:.1f} s; "
        f"peak {peak():.2f} GiB ({before:.2f} before)"
    )
