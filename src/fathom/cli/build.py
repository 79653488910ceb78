"""``fathom build …``: commands that make data folders, one file each beside this one."""

from __future__ import annotations

import typer

from fathom.building.cloze.options import ClozeOptions
from fathom.cli import build_choices, build_cloze, build_ontology, build_worlds
from fathom.cli.options import add_command, new_group, with_flags

CLOZE = "fathom build cloze --input abstracts.xml --entities genes.txt --out my-cloze"


def make(does: str) -> typer.Typer:
    """``fathom build``"""
    app = new_group(does, CLOZE)
    add_command(app, "cloze", with_flags(build_cloze.cloze, ClozeOptions), CLOZE)
    add_command(app, "review", build_cloze.review, "fathom build review my-cloze/review.csv")
    add_command(app, "ontology", build_ontology.ontology, "fathom build ontology --input town.ttl --out my-ontology")
    add_command(app, "choices", build_choices.choices, "fathom build choices --data my-ontology --out my-choices")
    add_command(
        app, "worlds", build_worlds.worlds, "fathom build worlds --data my-graph --out worlds --variants base,virtual-e"
    )
    return app
