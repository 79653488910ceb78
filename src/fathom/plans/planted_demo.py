"""The plan of ``fathom demo --planted``: plant half of the geography facts in two small models, and probe them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fathom.data.queries import QuerySet
from fathom.probes.models import open_model
from fathom.probes.options import StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.studies.planted_demo import analyse, unseen_template
from fathom.training.options import PlantOptions
from fathom.training.planting import plant

LIMITS = {"causal": None, "masked": 320}
"""Number of facts by kind of model, None for all: a masked model takes a pass for every token."""


def run_planted_demo(data: QuerySet, out: Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Plant, probe and compare, reusing what is in *out*.

    :param say: called with each line of progress.
    """
    models, runs = {}, {}
    for kind, limit in LIMITS.items():
        models[kind] = out / f"planted-{kind}"
        if not models[kind].exists():
            say(f"planting half of {len(data.queries)} facts in a small {kind} model, from scratch …")
            plant(data, PlantOptions(kind=kind), models[kind])
        say(f"evaluating {limit or len(data.queries)} facts, in a phrasing it was trained on and in another …")
        options = StatementOptions(templates=(0, unseen_template(data)), limit=limit, device="cpu")
        model = open_model(str(models[kind]), options)
        runs[kind] = run(RunRequest("statement", model, data, options), out / f"run-{kind}")
    return analyse(data, runs, models)
