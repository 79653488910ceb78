"""What the studies that start their own runs conclude of answerers that lack the property asked for, and of one that has
it (see tests/test_controls.py)."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from fathom.data.knowledge import KnowledgeGraph
from fathom.data.queries import CandidateSet, Query, QuerySet, Relation
from fathom.data.templates import Template
from fathom.metrics.ranking import hits_at_k
from fathom.models.base import Attention
from fathom.models.scripted import ScriptedModel
from fathom.probes.embedding import TAIL_TEMPLATES
from fathom.probes.options import EmbeddingOptions, StatementOptions
from fathom.results.numbers import Number
from fathom.scoring.vectors import Encoded
from fathom.store.folder import RunFolder
from fathom.studies import ablation, compute_time, prompts, sizes
from fathom.studies.options import ComputeTimeOptions, SizesOptions
from tests.conftest import TINY_VOCABULARY, build, make_local
from tests.test_masked import BERT


def silent(_: str) -> Callable[[int, int], None]:
    return lambda done, total: None


def values(numbers: Iterable[Number]) -> list[float]:
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


class TestAblation:
    @pytest.mark.parametrize("masked", [False, True])
    def test_where_scoring_decides_nothing_no_arm_differs(self, masked: bool, tmp_path: Path) -> None:
        """Names of one word behind the same words: mean and sum, full and conditional, and every masking rank alike."""
        data = statements("abcdef", ["[X] has [Y]", "[X] it is [Y]"])
        found = ablation.ask(by_lot(masked), data, StatementOptions(), tmp_path, silent)
        assert len(found.comparisons) == (8 if masked else 2)
        assert len({arm.accuracy.value for arm in found.arms}) == 1
        for compared in found.comparisons:
            assert compared.difference.value == 0
            assert (compared.difference.p_value, compared.t_test_p) == (1, 1)

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
        found = ablation.ask(model, data, StatementOptions(), tmp_path, silent)
        differing = 0
        for compared in found.comparisons:
            arms = (side.split() for side in (compared.first, compared.second))
            one, other = (per_query(RunFolder(tmp_path / folder), scoring) for folder, scoring in arms)
            pairs = np.array([(one[query], other[query]) for query in one])
            assert compared.queries == len(pairs) == 40
            assert compared.difference.value == pytest.approx(np.mean(pairs[:, 0] - pairs[:, 1]))
            if np.ptp(pairs[:, 0] - pairs[:, 1]):
                differing += 1
                assert compared.t_test_p == pytest.approx(stats.ttest_rel(*pairs.T).pvalue)
        assert differing >= (3 if masked else 1)
        for arm in found.arms:
            own = per_query(RunFolder(tmp_path / arm.pll), arm.scoring)
            assert arm.accuracy.value == pytest.approx(np.mean(list(own.values())))


# --- prompts: results of the embedding probe depend on the wording of its tail prompts


def lands() -> QuerySet:
    """Twelve facts: land 1 has town 1, and so on."""
    ids = [str(number) for number in range(12)]
    names = {f"l{n}": f"land{n}" for n in ids} | {f"t{n}": f"town{n}" for n in ids}
    graph = KnowledgeGraph.from_triples([(f"l{n}", "has", f"t{n}") for n in ids], names)
    space = CandidateSet("towns", tuple(f"t{n}" for n in ids), tuple(f"town{n}" for n in ids))
    queries = tuple(Query(f"has/{n}", "has", f"land{n}", f"l{n}", (f"t{n}",), "towns") for n in ids)
    return QuerySet("lands", queries, {"towns": space}, {"has": Relation("has", "has", (), "1:1")}, graph=graph)


def encoding(heeds: Callable[[str], bool]) -> Callable[..., Encoded]:
    """Vectors of texts by the number of the last land or town in them, which is all that is needed to answer.

    :param heeds: whether a text is misunderstood: its town is taken for the next.
    """

    def encode(model: object, texts: Sequence[str], *_: object) -> Encoded:
        found = [int(re.findall(r"(?:land|town)(\d+)", text)[-1]) + heeds(text) for text in texts]
        return Encoded(torch.eye(12)[torch.tensor(found) % 12], [None] * len(texts))

    return encode


class TestPrompts:
    def asked(
        self, heeds: Callable[[str], bool], out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> dict[str, tuple[float, ...]]:
        """Hits@1, 10 and 100 by the name of the line."""
        monkeypatch.setattr("fathom.probes.embedding.text_vectors", encoding(heeds))
        lines = prompts.ask(by_lot(False), lands(), EmbeddingOptions(shots=2), out, silent)
        return {line.name: tuple(values(line.hits)) for line in lines}

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
    made = ScriptedModel([*LANDS, *TOWNS], weights)
    made.parameters = parameters
    return made


def rising(found: sizes.Sizes) -> list[int]:
    """The k of which it is said that Hits@k rise with size."""
    [growth] = found.growth.values()
    return growth.rising


class TestSizes:
    def asked(self, models: Mapping[str, ScriptedModel], out: Path) -> sizes.Sizes:
        loading = [(name, partial(models.get, name)) for name in models]
        return sizes.ask(loading, capitals(), SizesOptions(probes=("statement",)), out, silent)

    @pytest.mark.parametrize(
        "order", [("small", "middle", "large"), ("large", "middle", "small"), ("middle", "large", "small")]
    )
    def test_models_stand_by_size_however_they_are_named(self, order: Sequence[str], tmp_path: Path) -> None:
        """4, 11 and 18 of 20 facts are known; of the others each town is as likely: 1/20 first, 10/20 among ten."""
        knowing_more = {"small": model(10, range(4)), "middle": model(200, range(11)), "large": model(3000, range(18))}
        found = self.asked({name: knowing_more[name] for name in order}, tmp_path)
        assert [(line.name, line.parameters) for line in found.lines] == [
            ("small", 10),
            ("middle", 200),
            ("large", 3000),
        ]
        assert [values(line.hits[:2]) for line in found.lines] == [
            pytest.approx([(known + (20 - known) / 20) / 20, (known + (20 - known) / 2) / 20]) for known in (4, 11, 18)
        ]
        assert rising(found) == [1, 10]  # among a hundred stand all twenty towns

    @pytest.mark.parametrize(
        "facts",
        [
            (range(9), range(9), range(9)),
            (range(9), range(5, 14), range(11, 20)),  # others, as many
            (range(18), range(11), range(4)),
        ],
    )
    def test_where_larger_models_hold_no_more_nothing_rises(self, facts: Sequence[range], tmp_path: Path) -> None:
        named = {f"m{n}": model(10 ** (n + 1), own) for n, own in enumerate(facts)}
        assert rising(self.asked(named, tmp_path)) == []
        assert rising(self.asked(dict(reversed(named.items())), tmp_path / "again")) == []

    def test_being_surer_of_what_is_wrong_is_no_knowledge(self, tmp_path: Path) -> None:
        """Each larger model has an opinion on more facts, the wrong one."""
        named = {f"m{n}": model(10 ** (n + 1), range(6 * n + 2), offset=1) for n in range(3)}
        found = self.asked(named, tmp_path)
        assert rising(found) == []
        assert found.lines[0].hits[0].value > found.lines[-1].hits[0].value


# --- compute time: each query takes as long as the others


class TestComputeTime:
    def asked(self, seconds: Callable[[int], float], monkeypatch: pytest.MonkeyPatch, out: Path) -> compute_time.Timing:
        """:param seconds: that a run of so many queries takes."""
        clock = SimpleNamespace(now=0.0)

        def run(probe: str, model: object, data: QuerySet, options: StatementOptions, *_: object) -> None:
            clock.now += seconds(options.limit or 0)

        monkeypatch.setattr(compute_time, "run", run)
        monkeypatch.setattr(compute_time, "time", SimpleNamespace(perf_counter=lambda: clock.now))
        options = ComputeTimeOptions(probes=("statement",), queries=(2, 5, 11, 20), repeats=3, total=1000)
        [found] = compute_time.ask(by_lot(False), capitals(), options, out, silent)
        return found

    def slope(self, found: compute_time.Timing) -> tuple[float, float, float]:
        """Of the table: seconds per query, and the ends of its interval."""
        [row] = compute_time.tables([found])[0].objects()
        return row["seconds/query"], row["seconds/query low"], row["seconds/query high"]

    def test_what_takes_no_longer_has_no_time_per_query(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Seven seconds to start, with a jitter that has nothing to do with the number of queries."""
        lot = random.Random(0)
        found = self.asked(lambda queries: 7 + lot.uniform(-1, 1), monkeypatch, tmp_path)
        value, low, high = self.slope(found)
        assert low < 0 < high
        assert abs(value) < 0.1
        assert abs(found.line.r_squared) < 0.2

    def test_seconds_per_query_and_of_all_are_told(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """3 s and 0.5 s a query: 503 s of a thousand queries, 503/3600 h."""
        found = self.asked(lambda queries: 3 + 0.5 * queries, monkeypatch, tmp_path)
        assert [count for count, _ in found.points] == [2, 5, 11, 20] * 3
        assert self.slope(found) == pytest.approx((0.5, 0.5, 0.5))
        assert (found.line.intercept, found.line.r_squared, found.seconds) == pytest.approx((3, 1, 503))
        [row] = compute_time.tables([found])[0].objects()
        assert row["extrapolated, h"] == pytest.approx(503 / 3600)

    def test_the_interval_is_that_of_the_slope(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Of twelve points: t with ten degrees of freedom, times the standard error of a least-squares line."""
        lot = random.Random(1)
        found = self.asked(lambda queries: 1 + 0.25 * queries + lot.gauss(0, 0.4), monkeypatch, tmp_path)
        reference = stats.linregress(*zip(*found.points, strict=True))
        width = stats.t.ppf(0.975, 10) * reference.stderr
        assert self.slope(found) == pytest.approx((reference.slope, reference.slope - width, reference.slope + width))
        assert found.error == pytest.approx(1000 * reference.stderr)
