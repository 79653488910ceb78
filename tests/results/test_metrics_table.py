"""What every metric of the table must keep: its limits, NaN for what cannot be told, one step and fold for all uses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from fathom.base.errors import BadInput
from fathom.results.metrics.confidence import Confidence
from fathom.results.metrics.ranking import known_hits_at_k
from fathom.results.metrics.table import METRICS, Metric, hits, metric
from tests.messages import mentions

NAN = np.nan


def items(best: list[float], worst: list[float], sure: float) -> SimpleNamespace:
    """Predictions with these optimistic and pessimistic ranks, of a model that is this sure of each."""
    optimistic, pessimistic = np.array(best, float), np.array(worst, float)
    rank = (optimistic + pessimistic) / 2
    full = np.full(len(best), sure)
    nothing = np.full(len(best), NAN)
    return SimpleNamespace(
        rank=rank,
        precision=np.where(rank == 1, 1.0, 0.0),
        recall=np.where(rank == 1, 1.0, 0.0),
        prompt_log_prob=-full,
        prompt_tokens=np.ones(len(best)),
        confidence=Confidence(full, full, 1 - full, (1 - full) ** 2),
        hits=lambda k: known_hits_at_k(optimistic, pessimistic, nothing, nothing, k),
        reciprocal=lambda: 1 / rank,
        reciprocal_of_all=lambda: 1 / rank,
        finest_rank=rank,
        reciprocal_of_finest=lambda: 1 / rank,
        agreeing=lambda: np.where(rank == 1, 1.0, 0.0),
    )


def value(one: Metric, of: SimpleNamespace) -> float:
    columns = one.columns(of)
    if one.prepare is not None:
        columns = tuple(one.prepare(*columns))
    means = [np.mean(column) for column in columns]
    if one.error_folds is not None:
        return float(one.error_folds[0](*means, errors=np.zeros(len(means))))
    return float(one.fold(*means)) if one.fold else float(means[0])


EVERY = [*METRICS.entries(), hits(3), hits(10)]


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
class TestEveryMetric:
    def test_it_stays_within_its_limits_at_best_and_at_worst(self, one: Metric) -> None:
        for best, worst, sure in (([1, 1], [1, 1], 1.0), ([9, 9], [9, 9], 0.1), ([1, 4], [3, 9], 0.5)):
            found = value(one, items(best, worst, sure))
            assert one.limits[0] <= found <= one.limits[1]

    def test_its_step_has_a_value_for_each_prediction(self, one: Metric) -> None:
        for column in one.columns(items([1, 2, 5], [1, 3, 5], 0.5)):
            assert column.shape == (3,)
            assert column.dtype == float

    def test_order_decides_nothing(self, one: Metric) -> None:
        forth, back = items([1, 2, 5], [1, 3, 5], 0.5), items([5, 2, 1], [5, 3, 1], 0.5)
        assert value(one, forth) == pytest.approx(value(one, back))

    def test_its_name_reads_back_as_itself(self, one: Metric) -> None:
        assert metric(one.name).name == one.name

    def test_it_is_shown_as_a_number(self, one: Metric) -> None:
        assert format(0.5, one.shown)


def test_values_by_hand() -> None:
    # Ranks 1, and 2 to 3 (mean 2.5): Hits@1 1 and 0; Hits@2 1 and 1/2; 1/rank 1 and 2/5; mean rank 1.75.
    some = items([1, 2], [1, 3], 0.5)
    found = {one.name: value(one, some) for one in [*METRICS.entries(), hits(2)]}
    assert found["accuracy"] == 0.5
    assert found["hits@2"] == 0.75
    assert found["mrr"] == pytest.approx(0.7)
    assert found["mean_rank"] == 1.75
    assert found["mrr_finest"] == pytest.approx(0.7)
    assert found["remembered"] == 0.5
    assert found["f1"] == pytest.approx(0.5)  # of mean precision 1/2 and mean recall 1/2
    assert found["perplexity"] == pytest.approx(np.exp(0.5))
    assert found["ece"] == pytest.approx(0.0)  # half sure, half right


def test_a_name_that_there_is_not() -> None:
    with pytest.raises(BadInput, match=mentions("'hits@0'", "mrr")):
        metric("hits@0")


def test_every_metric_says_what_it_is(fathom) -> None:
    assert [entry.name for entry in METRICS.entries() if not entry.about] == []
    code, out, _ = fathom("metrics", "--list", "--format", "csv")
    listed = [line.split(",")[0] for line in out.splitlines()]
    assert code == 0
    assert {"accuracy", "hits@10", "ece", "mrr_finest"} <= set(listed)
    assert fathom("metrics")[0] == 2  # a run is missing
