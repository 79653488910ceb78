"""Memory per fact: slopes against least squares, intervals against the jackknife by hand, and answerers whose memory is
known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from fathom.base.errors import BadInput
from fathom.results.metrics.correlation import intercept, slope, tetrad
from fathom.results.tables import render
from fathom.store.folder import RunFolder
from fathom_kgc.studies import memory_slope
from fathom_kgc.studies.memory_slope import ALL, BEYOND, EASE, PER_FACT, UNKNOWN, WITHIN
from tests.messages import mentions, stated

IDS = [f"e{number}" for number in range(50)]


def drawn(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lot = np.random.default_rng(seed)
    x = lot.random(n)
    z = 0.5 * x + lot.random(n)
    return x, 0.7 * x - 0.4 * z + lot.normal(0, 0.2, n), z


def test_slopes_are_those_of_least_squares():
    x, y, _ = drawn(1)
    line = stats.linregress(x, y)
    assert slope(x, y).estimate == pytest.approx(line.slope)
    assert intercept(x, y).estimate == pytest.approx(line.intercept)


def test_their_error_is_the_jackknifes():
    """Of each pair left out in turn, and of each of eight clusters."""
    x, y, _ = drawn(2)
    alone = np.array([stats.linregress(np.delete(x, at), np.delete(y, at)).slope for at in range(40)])
    assert slope(x, y).error == pytest.approx(np.sqrt(39 / 40 * ((alone - alone.mean()) ** 2).sum()), rel=0.02)
    groups = np.repeat(np.arange(8), 5)
    of_groups = np.array([stats.linregress(x[groups != at], y[groups != at]).slope for at in range(8)])
    full = slope(x, y).estimate
    found = slope(x, y, groups).error
    assert found == pytest.approx(np.sqrt(7 / 8 * ((of_groups - full) ** 2).sum()), rel=0.05)


def test_no_slope_without_spread():
    _, y, _ = drawn(3)
    assert np.isnan(slope(np.ones(40), y).estimate)
    assert slope(np.ones(40), y).low is None


def test_intervals_hold():
    """Of 400 samples with more spread where x is great, 95 % hold the slope; least squares' own error does not."""
    held = usual = 0
    for seed in range(400):
        lot = np.random.default_rng(seed)
        x = lot.random(60) ** 2
        y = 0.3 * x + lot.normal(0, 1, 60) * x
        found, line = slope(x, y), stats.linregress(x, y)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
        usual += abs(line.slope - 0.3) <= stats.t.ppf(0.975, 58) * line.stderr
    assert 0.93 * 400 <= held <= 0.98 * 400
    assert usual < 0.9 * 400


def run_of(folder: Path, name: str, ranks: list[float | None], by_predictor: bool, data: str = "1") -> RunFolder:
    """Ranks of facts of two relations, in turn; None where one was not scored."""
    made = RunFolder(folder / name)
    ids = [f"test/{number}" for number in range(len(ranks))]
    queries = pa.table(
        {
            "query_id": ids,
            "fact_id": ids,
            "relation": ["ab"[number % 2] for number in range(len(ranks))],
            "direction": ["tail"] * len(ranks),
            "subject_id": ids,
            "gold": pa.array([[IDS[0]]] * len(ranks), pa.list_(pa.string())),
            "candidates": ["all"] * len(ranks),
            "groups": pa.array([[]] * len(ranks), pa.map_(pa.string(), pa.string())),
            "sentences": pa.array([0] * len(ranks), pa.int64()),
        }
    )
    space = {"set": ["all"] * 50, "position": list(range(50)), "id": IDS, "name": IDS}
    identity = {
        "probe": "link" if by_predictor else "statement",
        "resolved": {"asking": {}} if by_predictor else {},
        "model": {"name": name, "content_hash": name},
        "data": {"name": "D", "content_hash": data},
    }
    made.start(identity, ["0"], queries, pa.table(space))
    row = {"template": 0, "scoring": "s", "subject": "x", "prompt": "x [Y]", "num_candidates": 50}
    ends = ("rank", "rank_optimistic", "rank_pessimistic")
    rows = [
        row | {"query_id": id_, "unscored": None if rank else "too long"} | dict.fromkeys(ends, rank)
        for id_, rank in zip(ids, ranks, strict=True)
    ]
    made.add_shard("0", rows)
    return made


def asked(folder: Path, known: list[float], pretrained: list[float], random: list[float]):
    runs = [
        run_of(folder, "lm", known, False),
        run_of(folder, "p", pretrained, True),
        run_of(folder, "r", random, True),
    ]
    return memory_slope.analyse(runs)


def test_by_hand(tmp_path):
    """Known facts (1 / rank 1) go from 1/2 to 1, unknown ones (1/50) from 1/4 to 1/3: gains 1/2 and 1/12."""
    found = asked(tmp_path, [1, 1, 50, 50] * 5, [1, 1, 3, 3] * 5, [2, 2, 4, 4] * 5)
    values = {name: effect.value for name, effect in found.effects.items()}
    steep = (1 / 2 - 1 / 12) / (1 - 1 / 50)
    assert values[PER_FACT] == pytest.approx(steep)
    assert values[WITHIN] == pytest.approx(steep)
    assert values[EASE] == pytest.approx((1 / 2 - 1 / 4) / (1 - 1 / 50))
    assert values[UNKNOWN] == pytest.approx(1 / 12 - steep / 50)
    assert values[ALL] == pytest.approx((1 / 2 + 1 / 12) / 2)
    assert found.decision.word == "cannot be determined"  # without a control
    known, middle, unknown = found.parts
    assert (known["facts"], middle["facts"], unknown["facts"]) == (10, 0, 10)
    measured = [known[name].value for name in ("pre-trained", "random", "gain")]
    assert measured == pytest.approx([1, 1 / 2, 1 / 2])
    assert unknown["gain"].value == pytest.approx(1 / 12)
    assert "nothing was scored" in render(memory_slope.tables(found), "csv")
    assert [plot.name for plot in memory_slope.plots(found)] == ["memory-slope"]


def test_classes_by_rank_and_what_is_left_out(tmp_path):
    """Ranks 2 and 10 are of one class, 11 is beyond; two facts that one run or another did not score are in none."""
    known = [1, 2, 10, 11] * 5
    found = asked(tmp_path, [*known, None, 3], [1, 1, 2, 4] * 5 + [1, 1], [*([2, 2, 4, 4] * 5), 1, None])
    assert [part["facts"] for part in found.parts] == [5, 10, 5]
    assert [part["gain"].value for part in found.parts] == pytest.approx([1 / 2, (1 / 2 + 1 / 4) / 2, 0])
    assert found.left_out == 2
    assert stated(render(memory_slope.tables(found), "md"), "2 facts", "left out")


def scripted(seed: int, remembers: bool) -> tuple[list[float], list[float], list[float]]:
    """Ranks of 300 facts, some easier by themselves: known by lot; pre-trained weights help all facts alike, and with
    *remembers* bring three of four known ones to the top."""
    lot = np.random.default_rng(seed)
    known = np.where(lot.random(300) < 0.4, 1, lot.integers(2, 51, 300))
    random = lot.integers(1, 51, 300)
    helped = np.maximum(1, random - lot.integers(0, 8, 300))
    recalled = remembers & (known == 1) & (lot.random(300) < 0.75)
    return known.tolist(), np.where(recalled, 1, helped).tolist(), random.tolist()


@pytest.mark.slow
def test_only_who_remembers_has_a_slope(tmp_path):
    """Names that are written better give a gain, and no slope: of 40 such predictors at most 5 of 40 slopes are beyond
    0, of 8 who remember all."""
    beyond = {True: 0, False: 0}
    for remembers in (True, False):
        for seed in range(40 if not remembers else 8):
            found = asked(tmp_path / f"{remembers}{seed}", *scripted(seed, remembers))
            told = found.effects
            assert told[ALL].low is not None
            assert told[ALL].low > 0
            beyond[remembers] += sum(told[name].low > 0 or told[name].high < 0 for name in (WITHIN,))
    assert beyond[True] == 8
    assert beyond[False] <= 5


def ranks_by(score: np.ndarray, lot: np.random.Generator) -> list[int]:
    """Rank of an answer of this score among 49 others."""
    return (1 + (lot.standard_normal((len(score), 49)) > score[:, None]).sum(axis=1)).tolist()


def eased(seed: int, told: bool) -> list[list[int]]:
    """Ranks by language model, pre-trained, random and control of 300 facts: one ease moves all four; with *told* the
    language model was told a third of the facts, drawn at random, and its predictor recalls them."""
    lot = np.random.default_rng(seed)
    ease = lot.standard_normal(300)
    known = told & (lot.random(300) < 1 / 3)
    knowledge = np.where(known, 5.0, ease + 0.7 * lot.standard_normal(300))
    pretrained = np.where(known, 4.0, 1.3 * ease + 1.5 + 0.7 * lot.standard_normal(300))
    others = (ease + shift + 0.7 * lot.standard_normal(300) for shift in (1.0, -1.0))  # the control knows less
    return [ranks_by(score, lot) for score in (knowledge, pretrained, *others)]


@pytest.mark.slow
def test_ease_is_not_memory(tmp_path):
    """Where one ease moves everything, the slope finds memory in far more than 5 % of worlds; the claim does not."""
    found = {}
    for told in (False, True):
        decisions = []
        for seed in range(40):
            folder = tmp_path / f"{told}{seed}"
            ranks = eased(seed, told)
            runs = [
                run_of(folder, name, own, name in "pr") for name, own in zip(("lm", "p", "r", "c"), ranks, strict=True)
            ]
            decisions.append(memory_slope.analyse(runs))
        found[told] = decisions
    slopes = [one.effects for one in found[False]]
    assert sum(own[PER_FACT].low > 0 for own in slopes) > 4
    assert sum(one.decision.holds for one in found[False]) <= 2
    assert all(BEYOND in own for own in slopes)
    assert sum(one.decision.holds for one in found[True]) >= 38


def test_tetrad_by_hand():
    """cov(gain, own) = 2/3 · 1/2 … of three points: values 0, 1, 2 for gain, own and ease, control 0, 0, 1."""
    g = x = e = np.array([0.0, 1.0, 2.0])
    c = np.array([0.0, 0.0, 1.0])
    # cov(g, x) = 2/3, cov(e, c) = 1/3, cov(g, c) = 1/3, cov(e, x) = 2/3: 2/9 − 2/9.
    assert tetrad(g, x, c, e).estimate == pytest.approx(0)
    assert np.isnan(tetrad(g, x, np.ones(3), e).estimate)
    # Own 0, 0, 1 and control 0, 1, 0: cov(g, x) = 1/3, cov(e, c) = 0, so the difference is −cov(g, c) cov(e, x) = 0.
    assert tetrad(g, c, np.array([0.0, 1.0, 0.0]), e).estimate == pytest.approx(0)
    # Gain 0, 2, 2: cov(g, x) = 2/3, cov(e, c) = 1/3, cov(g, c) = 2/9, cov(e, x) = 2/3.
    assert tetrad(np.array([0.0, 2.0, 2.0]), x, c, e).estimate == pytest.approx(2 / 9 - 4 / 27)


def test_runs_that_do_not_fit(tmp_path):
    ranks = [1.0, 2.0, 3.0, 4.0]
    probe, link = run_of(tmp_path, "lm", ranks, False), run_of(tmp_path, "p", ranks, True)
    other = run_of(tmp_path, "r", ranks, True, data="2")
    with pytest.raises(BadInput, match=mentions("three runs or four", "found 2")):
        memory_slope.analyse([probe, link])
    with pytest.raises(BadInput, match=mentions("lm:", "kgc evaluate")):
        memory_slope.analyse([link, probe, link])
    with pytest.raises(BadInput, match=mentions("r asked other", "lm")):
        memory_slope.analyse([probe, link, other])
