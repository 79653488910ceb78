"""What the studies whose runs a preset plans conclude about models without the property in question, and about one that
has it (see tests/studies/test_controls.py)."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.engine.models.base import Attention
from fathom.engine.scoring.masked import Pll
from fathom.engine.scoring.vectors import TextVectors
from fathom.probes.embedding import TAIL_TEMPLATES
from fathom.probes.options import EmbeddingOptions, StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.results.claims import NO_DIFFERENCE
from fathom.results.estimates import Estimate
from fathom.results.loading import read_scorings
from fathom.results.metrics.ranking import hits_at_k
from fathom.store.folder import SECONDS, RunFolder
from fathom.studies import ablation, compute_time, sizes
from fathom.studies.options import TimeOptions
from tests.conftest import TINY_VOCABULARY, build, make_local
from tests.engine.test_masked import BERT
from tests.scripted import ScriptedModel


def values(numbers: Iterable[Estimate]) -> list[float]:
    return [number.value for number in numbers]


# --- ablation: the way in which statements are scored matters


def statements(names: Sequence[str], templates: Sequence[str]) -> QuerySet:
    """Forty facts whose right answers are drawn by lot."""
    lot = random.Random(0)
    ids = tuple(f"c{number}" for number in range(len(names)))
    queries = tuple(Query(f"q{n}", "r", f"w{100 + n}", f"s{n}", (lot.choice(ids),), "all") for n in range(40))
    relation = Relation("r", "r", tuple(map(Template, templates)), "1:N")
    return QuerySet("lot", queries, {"all": CandidateSet("all", ids, tuple(names))}, {"r": relation})


def by_lot(masked: bool) -> ScriptedModel:
    """A bigram model whose weights are drawn by lot."""
    lot = random.Random(1)
    words = ["has", "is", "it", "a", "b", "c", "d", "e", "f", *(f"w{100 + n}" for n in range(40))]
    weights = {one: {other: lot.uniform(0.1, 9) for other in words} for one in words}
    return ScriptedModel(words, weights, masked=masked)


def per_query(run: RunFolder, scoring: str) -> dict[str, float]:
    """Expected Hits@1 of each query, the mean over its templates, from the predictions themselves."""
    hits: dict[str, list[float]] = {}
    for row in run.predictions().to_pylist():
        if row["scoring"] == scoring:
            chance = float(hits_at_k([row["rank_optimistic"]], [row["rank_pessimistic"]], 1)[0])
            hits.setdefault(row["query_id"], []).append(chance)
    return {query: float(np.mean(of_query)) for query, of_query in hits.items()}


def ablated(model: Any, data: QuerySet, out: Path) -> ablation.Ablation:
    """The findings on a run of each masking, in a folder of its name, in every way of summing."""
    variants = list(Pll) if model.attention is Attention.BIDIRECTIONAL else [Pll.WITHIN_WORD_L2R]
    scorings = StatementOptions(reduction=("sum", "mean"), score=("full", "conditional"))
    folders = {
        "causal" if len(variants) == 1 else str(pll): scorings.model_copy(update={"pll": pll}) for pll in variants
    }
    return ablation.analyse(
        [run(RunRequest("statement", model, data, one), out / name) for name, one in folders.items()]
    )


class TestAblation:
    @pytest.mark.parametrize("masked", [False, True])
    def test_where_scoring_decides_nothing_no_arm_differs(self, masked: bool, tmp_path: Path) -> None:
        """Names of one word behind the same words: mean and sum, full and conditional, and every masking rank alike."""
        data = statements("abcdef", ["[X] has [Y]", "[X] it is [Y]"])
        found = ablated(by_lot(masked), data, tmp_path)
        assert len(found.comparisons) == (8 if masked else 2)
        assert len({arm["accuracy"].value for arm in found.arms}) == 1
        for compared in found.comparisons:
            assert compared["difference"].value == 0
            assert (compared["difference"].p_value, compared["p (t-test)"]) == (1, 1)

    @pytest.mark.parametrize("masked", [False, True])
    def test_the_test_is_students_of_the_two_arms(self, masked: bool, tmp_path: Path) -> None:
        """Random weights and names of one to three words, by which most arms differ: of every comparison,
        difference and p value are those of the two arms' own values of each query."""
        data = statements(["w9", "w10 w11", "w12 w13 w14", "w15"], ["w5 [X] w6 [Y]", "w6 [Y] w7 [X] w8"])
        shape = {"vocab_size": TINY_VOCABULARY, "bos_token_id": 0, "eos_token_id": 2}
        model = (
            make_local(build("BertForMaskedLM", **shape, **BERT), attention=Attention.BIDIRECTIONAL)
            if masked
            else make_local(build("GPT2LMHeadModel", **shape, n_embd=16, n_layer=2, n_head=2))
        )
        found = ablated(model, data, tmp_path)
        differing = 0
        for compared in found.comparisons:
            arms = (side.split() for side in (compared["first"], compared["second"]))
            one, other = (per_query(RunFolder(tmp_path / folder), scoring) for folder, scoring in arms)
            pairs = np.array([(one[query], other[query]) for query in one])
            assert compared["queries"] == len(pairs) == 40
            assert compared["difference"].value == pytest.approx(np.mean(pairs[:, 0] - pairs[:, 1]))
            if np.ptp(pairs[:, 0] - pairs[:, 1]):
                differing += 1
                assert compared["p (t-test)"] == pytest.approx(stats.ttest_rel(*pairs.T).pvalue)
        assert differing >= (3 if masked else 1)
        for arm in found.arms:
            own = per_query(RunFolder(tmp_path / arm["pll"]), arm["scoring"])
            assert arm["accuracy"].value == pytest.approx(np.mean(list(own.values())))


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


# --- sizes: larger models hold more facts


LANDS, TOWNS = ([f"{kind}{number}" for number in range(20)] for kind in ("Land", "Town"))
"""With capitals, which every statement begins with."""


def capitals() -> QuerySet:
    queries = tuple(Query(f"q{land}", "r", land, land, (town,), "all") for land, town in zip(LANDS, TOWNS, strict=True))
    space = CandidateSet("all", tuple(TOWNS), tuple(TOWNS))
    return QuerySet("capitals", queries, {"all": space}, {"r": Relation("r", "r", (Template("[X] [Y]"),), "1:1")})


def model(parameters: int, facts: Iterable[int], offset: int = 0) -> ScriptedModel:
    """Knows so many capitals, and has no opinion of the others. :param offset: of what it says, 0 where it is right."""
    weights = {LANDS[fact]: {TOWNS[(fact + offset) % 20]: 9.0} for fact in facts}
    made = ScriptedModel([*LANDS, *TOWNS], weights, name=f"m{parameters}")
    made.parameters = parameters
    return made


def steps(found: sizes.Sizes, k: int) -> list[tuple[str | None, float]]:
    """Verdict and difference of each step in Hits@k."""
    return [(step.verdict, round(step.difference.value, 9)) for step in found.steps if step.about["of"] == f"hits@{k}"]


class TestSizes:
    def asked(self, facts: Mapping[int, Iterable[int]], out: Path, offset: int = 0) -> sizes.Sizes:
        """:param facts: number of parameters → what a model of that size knows, in the order in which it is named."""
        models = {f"m{size}": model(size, known, offset) for size, known in facts.items()}
        return sizes.analyse(
            [
                run(RunRequest("statement", one, capitals(), StatementOptions()), out / name)
                for name, one in models.items()
            ]
        )

    @pytest.mark.parametrize("listed", [(10, 200, 3000), (3000, 200, 10), (200, 3000, 10)])
    def test_models_stand_by_size_however_they_are_listed(self, listed: Sequence[int], tmp_path: Path) -> None:
        """1, 10 and 19 of 20 facts are known; of the others each town is as likely: 1/20 first, 10/20 among ten. Each
        step is 9/20 · 19/20, or 9/20 · 1/2; all towns are among a hundred."""
        known = {10: 1, 200: 10, 3000: 19}
        found = self.asked({size: range(known[size]) for size in listed}, tmp_path)
        assert [(line["model"], line["parameters"]) for line in found.lines] == [
            ("m10", 10),
            ("m200", 200),
            ("m3000", 3000),
        ]
        for line, number in zip(found.lines, known.values(), strict=True):
            expected = (number + (20 - number) / 20) / 20, (number + (20 - number) / 2) / 20, 1
            assert values(line[f"hits@{k}"] for k in (1, 10, 100)) == pytest.approx(expected)
        assert [(step.before, step.after) for step in found.steps if step.about["of"] == "hits@1"] == [
            ("m10", "m200"),
            ("m200", "m3000"),
        ]
        assert steps(found, 1) == [("rise", 0.4275)] * 2
        assert steps(found, 10) == [(None, 0.225)] * 2  # secondary
        assert steps(found, 100) == [(None, 0)] * 2
        above = [step.above for step in found.steps if step.about["of"] == "hits@1"]
        assert above == ["m200", "both"]  # one fact of twenty is what guessing has

    @pytest.mark.parametrize(
        ("known", "expected"),
        [
            ((range(9), range(9), range(9)), [(NO_DIFFERENCE, 0)] * 2),
            ((range(9), range(5, 14), range(11, 20)), [(NO_DIFFERENCE, 0)] * 2),  # others, as many
            ((range(19), range(10), range(1)), [("drop", -0.4275)] * 2),
            ((range(1), range(19), range(10)), [("rise", 0.855), ("drop", -0.4275)]),
        ],
    )
    def test_where_larger_models_hold_no_more_nothing_rises(
        self, known: Sequence[range], expected: list[tuple[str, float]], tmp_path: Path
    ) -> None:
        of_size = {10 ** (n + 1): own for n, own in enumerate(known)}
        assert steps(self.asked(of_size, tmp_path), 1) == expected
        assert steps(self.asked(dict(reversed(of_size.items())), tmp_path / "again"), 1) == expected

    def test_being_surer_of_what_is_wrong_is_no_knowledge(self, tmp_path: Path) -> None:
        """Each larger model has an opinion on six more facts, the wrong one: 6/20 · 1/20 less at the first place."""
        found = self.asked({10 ** (n + 1): range(6 * n + 2) for n in range(3)}, tmp_path, offset=1)
        assert [difference for _, difference in steps(found, 1)] == [-0.015] * 2
        assert "rise" not in {verdict for k in (1, 10, 100) for verdict, _ in steps(found, k)}
        assert {step.above for step in found.steps if step.about["of"] == "hits@1"} == {"neither"}


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
