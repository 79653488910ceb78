"""``fathom demo``: a first result, of a real model or of planted ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from pydantic import BaseModel

from fathom.base.errors import BadInput, FathomError, MissingExtra, Stopped
from fathom.base.options import Group, opt
from fathom.base.progress import shown, starting
from fathom.base.registry import CommandEntry
from fathom.cli.commands import single
from fathom.cli.formats import say

if TYPE_CHECKING:
    from fathom.store.folder import RunFolder


_to_stderr = partial(say, err=True)


class DemoOptions(BaseModel):
    model: str | None = opt(
        None, "Name, folder or GGUF file of a model; by default SmolLM2-135M-Instruct, fetched once.", Group.MODEL
    )
    planted: bool = opt(
        False,
        "Instead, train two small models on half of the facts, and test whether the probe finds that half.",
        Group.RUN,
    )
    dry_run: bool = opt(False, "Only print the estimated time and memory of each run; no weights are read.", Group.RUN)
    out: Path = opt(Path("demo"), "Folder of the runs and the report.", Group.OUTPUT)


def make(entry: CommandEntry) -> typer.Typer:
    return single(entry.does, demo, "fathom demo")


def demo(options: DemoOptions) -> None:
    if options.planted and options.model is not None:
        raise BadInput("--planted trains its own models: remove --model, or --planted")
    if options.model == "":
        raise BadInput(
            "--model is empty: expected a name, folder or GGUF file, or no --model for SmolLM2-135M-Instruct"
        )
    if options.dry_run:
        _estimate(options)
        return
    name = options.model if options.planted or options.model else _fetched_model()
    if name is None:
        _planted(options.out)
    else:
        _real(name, options.out)


def _fetched_model() -> str | None:
    """Return the folder of the demo's model; None, with a note, if it cannot be fetched.

    :raises MissingExtra: a library that reads it is missing.
    """
    with starting("loading libraries"):
        from fathom.plans.demo import fetched_model
    try:
        return fetched_model(_to_stderr)
    except (MissingExtra, Stopped):
        raise
    except FathomError as error:
        _to_stderr(f"note: {'; '.join(str(error).splitlines())}: two planted models instead")
        return None


def _estimate(options: DemoOptions) -> None:
    if options.planted:
        raise BadInput("--dry-run: --planted trains its models, which takes two minutes: remove one of them")
    with starting("loading libraries"):
        from fathom.plans.demo import MODEL, forecast_demo
        from fathom.watch import sample_facts
    from fathom.data.fetch_model import model_folder
    from fathom.results.tables import render

    name = options.model or str(model_folder(MODEL))
    if not options.model and not Path(name).is_dir():
        raise BadInput(f"--dry-run fetches nothing: give --model, or type first: fathom model fetch {MODEL}")
    with shown("estimating runs") as progress:
        say(render([forecast_demo(name, partial(sample_facts, "geography"), options.out, progress)], "text"))


def _real(name: str, out: Path) -> None:
    with starting("loading libraries"):
        from fathom.plans.demo import run_demo
        from fathom.watch import sample_facts
    from fathom.results.tables import render
    from fathom.studies.demo import analyse
    from fathom.studies.report.page import Opening

    runs = run_demo(name, partial(sample_facts, "geography"), out)
    findings = analyse(*runs)
    say(render(findings.tables, "text", findings.sentences))
    say("\nYour own model, by name, folder or GGUF file: fathom demo --model NAME")
    say("All facts and templates: fathom probe statement --model NAME --data geography --out runs/NAME")
    folder = runs[0].path.parent
    _report(runs, folder / "report.html", title=f"{folder.name} on geography", opening=Opening(*findings))


def _planted(out: Path) -> None:
    from fathom.data.formats import read
    from fathom.plans.demo import LIMITS, run_planted_demo
    from fathom.studies.demo import text

    say(text(run_planted_demo(read("geography"), out, _to_stderr), out))
    _report(
        [out / f"run-{kind}" for kind in LIMITS],
        out / "report.html",
        title="Two small models that learnt half of a geography book",
        groups=out / "planted-causal" / "planted.jsonl",  # one seed: both models learnt the same half
    )


def _report(runs: Sequence[Path | RunFolder], page: Path, **about: Any) -> None:
    from fathom.studies.report.page import report

    try:
        report(runs, page, **about)
        say(f"\nEvery prompt and answer, with charts that filter each other: open {page} in a browser")
    except MissingExtra as error:
        say(f"\nno report: {error}")
