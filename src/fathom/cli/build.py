"""``fathom build …``: commands that make data folders, one file each beside this one."""

from __future__ import annotations

import typer

from fathom.cli import build_choices, build_cloze, build_ontology, build_worlds

app = typer.Typer(help="Make data folders from texts, graphs and ontologies.", no_args_is_help=True)
app.command("cloze")(build_cloze.cloze)
app.command("review")(build_cloze.review)
app.command("ontology")(build_ontology.ontology)
app.command("choices")(build_choices.choices)
app.command("worlds")(build_worlds.worlds)
