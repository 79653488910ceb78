"""Estimates of trainings of link predictors: within a factor of two, in time of the processor."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fathom.base.errors import BadInput
from fathom.data.formats import read
from fathom.data.graph.queries import graph_of, link_queryset
from fathom.probes import run
from fathom.probes.run import RunRequest
from fathom_kgc.links import find
from fathom_kgc.links.base import open_links, train_links
from fathom_kgc.links.forecast import forecast_links
from fathom_kgc.links.options import LinkOptions
from tests.papers import plant_models, write_bear, write_places

KINDS = {"masked": "masked", "t5": "t5"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("forecast")
    write_places(root / "graph", 30)
    plant_models(root / "models", read(write_bear(root / "bear")), KINDS)
    return root


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "own"),
    [
        ("simkgc", {"weights": "masked", "epochs": 12}),
        ("knn-kge", {"weights": "masked", "epochs": 3, "entity_epochs": 6}),
        ("kgt5", {"weights": "t5", "epochs": 4}),
        ("TransE", {"epochs": 400}),
    ],
)
def test_a_small_training_takes_about_what_was_estimated(folder: Path, tmp_path: Path, kind: str, own: Any) -> None:
    weights = {"weights": str(folder / "models" / own["weights"])} if "weights" in own else {}
    options = find(kind).parse(kind, {**own, **weights, "batch_size": 8, "patience": None, "device": "cpu"})
    data, asked, threads = read(folder / "graph"), LinkOptions(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        forecast_links(kind, graph_of(data), options, asked)  # the libraries are loaded
        found = forecast_links(kind, graph_of(data), options, asked, time.process_time)
        began = time.process_time()
        train_links(kind, data, options, tmp_path / "model")
        predictor = open_links(tmp_path / "model", data)
        run.run(RunRequest("link", predictor, link_queryset(data, asked.directions), asked), tmp_path / "run")
        took = time.process_time() - began
    finally:
        torch.set_num_threads(threads)
    assert took / 2 < found.seconds < 2 * took


def test_a_large_graph_is_measured_by_a_sample(folder: Path) -> None:
    """The estimate grows with the triples that are trained on."""
    own = {"weights": str(folder / "models" / "masked"), "batch_size": 2, "device": "cpu"}
    seconds = []
    for epochs in (1, 1000):
        options = find("simkgc").parse("simkgc", own | {"epochs": epochs})
        seconds.append(forecast_links("simkgc", graph_of(read(folder / "graph")), options, LinkOptions()).seconds)
    assert seconds[1] > 20 * seconds[0]


def test_a_kind_without_a_training_is_refused(folder: Path) -> None:
    options = find("prompted").parse("prompted", {"weights": "none"})
    with pytest.raises(BadInput, match="prompted"):
        forecast_links("prompted", graph_of(read(folder / "graph")), options, LinkOptions())
