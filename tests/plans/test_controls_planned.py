"""What the studies whose runs a preset plans conclude about models without the property in question, and about one that
has it (see tests/studies/test_controls.py)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.scoring.vectors import TextVectors
from fathom.probes.embedding import TAIL_TEMPLATES
from fathom.probes.options import EmbeddingOptions, StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.estimates import Estimate
from fathom.results.loading import read_scorings
from fathom.store.folder import SECONDS, RunFolder
from fathom.studies import compute_time
from fathom.studies.options import TimeOptions
from tests.scripted import ScriptedModel


def by_lot(masked: bool) -> ScriptedModel:
    """A bigram model whose weights are drawn by lot."""
    lot = random.Random(1)
    words = ["has", "is", "it", "a", "b", "c", "d", "e", "f", *(f"w{100 + n}" for n in range(40))]
    weights = {one: {other: lot.uniform(0.1, 9) for other in words} for one in words}
    return ScriptedModel(words, weights, masked=masked)


def values(numbers: Iterable[Estimate]) -> list[float]:
    return [number.value for number in numbers]


# --- prompts: results of the embedding probe depend on the wording of its tail prompts


def lands() -> QuerySet:
    """Twelve facts: land 1 has town 1, and so on."""
    ids = [str(number) for number in range(12)]
    names = {f"l{n}": f"land{n}" for n in ids} | {f"t{n}": f"town{n}" for n in ids}
    graph = KnowledgeGraph.from_triples([(f"l{n}", "has", f"t{n}") for n in ids], names)
    space = CandidateSet("towns", tuple(f"t{n}" for n in ids), tuple(f"town{n}" for n in ids))
    queries = tuple(Query(f"has/{n}", "has", f"land{n}", f"l{n}", (f"t{n}",), "towns") for n in ids)
    return QuerySet("lands", queries, {"towns": space}, {"has": Relation("has", "has", (), "1:1")}, graph=graph)


def encoding(heeds: Callable[[str], bool]) -> Callable[..., TextVectors]:
    """Vectors of texts by the number of the last land or town in them, which is all that is needed to answer.

    :param heeds: whether a text is misunderstood: its town is taken for the next.
    """

    def encode(model: object, texts: Sequence[str], *_: object) -> TextVectors:
        found = [int(re.findall(r"(?:land|town)(\d+)", text)[-1]) + heeds(text) for text in texts]
        return TextVectors(torch.eye(12)[torch.tensor(found) % 12], [None] * len(texts))

    return encode


class TestPrompts:
    def asked(
        self, heeds: Callable[[str], bool], out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> dict[str, tuple[float, ...]]:
        """Hits@1, 10 and 100 by the name of the line."""
        monkeypatch.setattr("fathom.probes.embedding.text_vectors", encoding(heeds))
        found = {}
        for name in TAIL_TEMPLATES:
            options = EmbeddingOptions(shots=2, tail_template=name)
            folder = run(RunRequest("embedding", by_lot(False), lands(), options), out / f"template-{name}")
            [facts] = read_scorings(folder, name)
            found[f"template {name}"] = tuple(float(facts.hits(k).mean()) for k in (1, 10, 100))
        return found

    def test_each_run_asks_by_a_wording_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked(lambda text: False, tmp_path, monkeypatch)
        wordings = {
            folder.name: RunFolder(folder).manifest["identity"]["resolved"]["tail_template"]
            for folder in tmp_path.iterdir()
        }
        assert wordings == {f"template-{name}": text for name, text in TAIL_TEMPLATES.items()}
        assert len(set(wordings.values())) == 4

    def test_one_who_does_not_heed_the_wording_answers_all_alike(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = self.asked(lambda text: False, tmp_path, monkeypatch)
        assert found == {f"template {name}": (1, 1, 1) for name in ("deer", "A", "B", "C")}

    @pytest.mark.parametrize(
        ("words", "misread"),
        [
            ("This sentence", "deer"),
            ("Summarize the entity", "A"),
            ("In one word", "B"),
            ("Summarize the meaning", "C"),
        ],
    )
    def test_the_wording_that_is_misread_is_told(
        self, words: str, misread: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every town is taken for the next: the right one is tied with ten others behind a wrong one, at ranks 2 to 12,
        of which nine in eleven are within ten."""
        found = self.asked(lambda text: words in text, tmp_path, monkeypatch)
        for name in ("deer", "A", "B", "C"):
            assert found[f"template {name}"] == pytest.approx((0, 9 / 11, 1) if name == misread else (1, 1, 1))


LANDS, TOWNS = ([f"{kind}{number}" for number in range(20)] for kind in ("Land", "Town"))
"""With capitals, which every statement begins with."""


def capitals() -> QuerySet:
    queries = tuple(Query(f"q{land}", "r", land, land, (town,), "all") for land, town in zip(LANDS, TOWNS, strict=True))
    space = CandidateSet("all", tuple(TOWNS), tuple(TOWNS))
    return QuerySet("capitals", queries, {"all": space}, {"r": Relation("r", "r", (Template("[X] [Y]"),), "1:1")})


# --- compute time: each query takes as long as the others


class TestComputeTime:
    def asked(self, seconds: Callable[[int], float], out: Path) -> compute_time.Timing:
        """:param seconds: that a run of so many queries takes."""
        runs = []
        for repeat, count in product(range(3), (2, 5, 11, 20)):
            options = StatementOptions(limit=count)
            runs.append(run(RunRequest("statement", by_lot(False), capitals(), options), out / f"{count}-{repeat}"))
            runs[-1].add_circumstances(**{SECONDS: seconds(count)})
        [found] = compute_time.analyse(runs, TimeOptions(total=1000))
        return found

    def slope(self, found: compute_time.Timing) -> tuple[float, float, float]:
        """Of the table: seconds per query, and the ends of its interval."""
        [row] = compute_time.tables([found])[0].objects()
        return row["seconds/query"], row["seconds/query low"], row["seconds/query high"]

    def test_what_takes_no_longer_has_no_time_per_query(self, tmp_path: Path) -> None:
        """Seven seconds to start, with a jitter that has nothing to do with the number of queries."""
        lot = random.Random(0)
        found = self.asked(lambda queries: 7 + lot.uniform(-1, 1), tmp_path)
        value, low, high = self.slope(found)
        assert abs(value) < 0.1
        assert low is None or low < value / 2  # a time is above 0; a line that falls has no interval
        assert high is None or high > 2 * value
        assert abs(found.line.r_squared) < 0.2

    def test_seconds_per_query_and_of_all_are_told(self, tmp_path: Path) -> None:
        """3 s and 0.5 s a query: 503 s of a thousand queries, 503/3600 h."""
        found = self.asked(lambda queries: 3 + 0.5 * queries, tmp_path)
        assert [count for count, _ in found.points] == [2, 5, 11, 20] * 3
        assert self.slope(found) == pytest.approx((0.5, 0.5, 0.5))
        assert (found.line.intercept, found.line.r_squared, found.seconds) == pytest.approx((3, 1, 503))
        [row] = compute_time.tables([found])[0].objects()
        assert row["extrapolated, h"] == pytest.approx(503 / 3600)

    def test_the_interval_is_that_of_the_slope(self, tmp_path: Path) -> None:
        """Of twelve points: t with ten degrees of freedom, times the standard error of a least-squares line."""
        lot = random.Random(1)
        found = self.asked(lambda queries: 1 + 0.25 * queries + lot.gauss(0, 0.4), tmp_path)
        reference = stats.linregress(*zip(*found.points, strict=True))
        width = stats.t.ppf(0.975, 10) * reference.stderr
        ends = (reference.slope * math.exp(sign * width / reference.slope) for sign in (-1, 1))
        assert self.slope(found) == pytest.approx((reference.slope, *ends))
        # The error of the line at 1,000 queries, by the covariance of intercept and slope.
        variance = reference.intercept_stderr**2 + 1000**2 * reference.stderr**2
        variance -= 2 * 1000 * np.mean([count for count, _ in found.points]) * reference.stderr**2
        assert found.error == pytest.approx(math.sqrt(variance))
