"""Ranks by training frequency: by hand, filtered as the ranking is, and an answerer who never reads the subject."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fathom.data.formats import read
from fathom.data.graph.seen import FrequencyRank, frequency_ranks
from fathom.data.queries import CandidateSet, Query, QuerySet
from fathom.data.templates import Template
from fathom.results.summary import summarise
from tests.answerers import answered, without_digests
from tests.messages import mentioned


def graph_of(folder: Path, train: list[tuple[str, str, str]], test: list[tuple[str, str, str]]) -> QuerySet:
    folder.mkdir()
    for name, triples in (("train", train), ("test", test)):
        (folder / f"{name}.tsv").write_text("".join("\t".join(triple) + "\n" for triple in triples))
    data = read(folder)
    asked = (Template("[X] has [Y]."),)
    return replace(data, relations={id_: replace(one, templates=asked) for id_, one in data.relations.items()})


def test_by_hand(tmp_path: Path) -> None:
    """Of r, training has x three times, y twice, z once. The test asks (d, r, y), (d, r, x) and (e, r, w)."""
    train = [*((head, "r", "x") for head in "abc"), *((head, "r", "y") for head in "ab"), ("a", "r", "z")]
    test = [("d", "r", "y"), ("d", "r", "x"), ("e", "r", "w")]
    data = graph_of(tmp_path / "graph", train, test)
    ranks = dict(zip([query.gold[0] for query in data.queries], frequency_ranks(data), strict=True))
    assert len(data.candidates["entities"]) == 9  # a to e, and w to z
    assert ranks["y"] == FrequencyRank(1, 1)  # x, which is more frequent, is another right answer of d and filtered
    assert ranks["x"] == FrequencyRank(1, 1)
    assert ranks["w"] == FrequencyRank(4, 9)  # after x, y and z, level with all that never answer


def test_without_a_training_split_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text("a\tr\tb\nc\tr\td\n")
    data = read(tmp_path / "all.tsv")
    assert frequency_ranks(data) == [None] * len(data.queries)


def skewed(folder: Path, seed: int = 0) -> QuerySet:
    """Four relations whose twelve tails are answers by a falling frequency, in training and in the test alike."""
    lot = random.Random(seed)
    triples = set()
    while len(triples) < 600:
        relation = lot.randrange(4)
        tail = min(int(lot.expovariate(0.5)), 11)
        triples.add((f"h{lot.randrange(120)}", f"r{relation}", f"t{relation}{tail:02}"))
    ordered = sorted(triples)
    lot.shuffle(ordered)
    return graph_of(folder, ordered[:450], ordered[450:])


@pytest.mark.parametrize("seed", range(3))
def test_an_answerer_by_training_frequency_is_not_above(tmp_path: Path, seed: int) -> None:
    """It is far above random guessing, and by its own definition equal to the baseline."""
    data = skewed(tmp_path / "graph", seed)
    graph = data.graph
    assert graph is not None
    part = slice(graph.splits["train"].start, graph.splits["train"].stop)
    names, relations = graph.entities.column("id").to_pylist(), graph.relations.column("id").to_pylist()
    counts = Counter(
        (relations[relation], names[tail])
        for relation, tail in zip(graph.relation[part].tolist(), graph.tail[part].tolist(), strict=True)
    )

    def by_frequency(query: Query, space: CandidateSet, template: int) -> list[float]:
        return [float(counts[query.relation, id_]) for id_ in space.ids]

    def knows(query: Query, space: CandidateSet, template: int) -> list[float]:
        right = int(query.id.rpartition("/")[2]) % 2 or query.gold[0]
        return [float(id_ == right) if isinstance(right, str) else counts[query.relation, id_] for id_ in space.ids]

    [line] = summarise(answered(tmp_path / "frequent", by_frequency, data)).headlines
    found = {one.baseline: one for one in line.baselines["accuracy"]}
    assert found["random"].difference.low > 0.1
    assert found["frequency"].difference.value == pytest.approx(0)
    assert line.verdict("accuracy").startswith("not above frequency")
    [line] = summarise(answered(tmp_path / "knows", knows, data)).headlines
    assert line.verdict("accuracy") == "above"


def test_a_run_of_a_graph_without_these_ranks_cannot_be_above(tmp_path: Path) -> None:
    """As runs of earlier versions: the verdict says what is missing."""

    data = skewed(tmp_path / "graph")
    run = answered(
        tmp_path / "run", lambda query, space, template: [float(id_ in query.gold) for id_ in space.ids], data
    )
    file = without_digests(run.path) / "queries.parquet"
    table = pq.read_table(file)
    kept = [name for name in table.column_names if not name.startswith("frequency") and name != "known"]
    pq.write_table(table.select(kept), file)
    [line] = summarise(run).headlines
    assert mentioned(line.verdict("accuracy"), "cannot be determined", "training frequency")
