"""``fathom study entailment``: does a model reason with an ontology?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import typer

from fathom.cli.formats import Format
from fathom.cli.options import merge, with_flags
from fathom.cli.study import announced
from fathom.cli.study_approaches import opened
from fathom.cli.tables import draw, split, tell
from fathom.probes.options import EntailmentOptions


def _entailment(
    model: str = typer.Option(..., help="Names or folders of masked models, separated by commas."),
    data: str = typer.Option(..., help="Folder of an ontology: OntoProbe's, or of fathom build ontology."),
    out: Path = typer.Option(
        ..., help="Folder for the runs and the tables. The same command goes on where it stopped."
    ),
    rules: str = typer.Option("rdfs2,rdfs3,rdfs5,rdfs7,rdfs9,rdfs11", help="Rules, separated by commas."),
    wordings: str = typer.Option(
        "words", help="Of words, learnt-conjunction, learnt-templates and learnt (both), separated by commas."
    ),
    soft: bool = typer.Option(False, "--soft", help="All four wordings."),
    memory: list[Path] = typer.Option(
        [],
        help="Finished run of the ontology probe on test items, to use instead of one made here; again for more. Asked "
        "are the items that all of them have asked.",
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
    **given: Any,
) -> None:
    """Does a model reason with what it remembers? Six rules of entailment, premises said, remembered, or neither."""
    from fathom.errors import BadInput, all_of
    from fathom.models.loading import load
    from fathom.options import parse_options
    from fathom.prompts.entailment import WORDINGS
    from fathom.studies.entailment import Plan, folder_names, study
    from fathom.studies.entailment_tables import draw_heat_maps, entailment_tables

    def chosen() -> list[str]:
        names = list(WORDINGS) if soft else split(wordings)
        if unknown := [name for name in names if name not in WORDINGS]:
            raise BadInput(f"--wordings {','.join(unknown)}: there is {', '.join(WORDINGS)}")
        return names

    names, runs, options = all_of(
        chosen, lambda: opened(memory), lambda: parse_options(EntailmentOptions, merge(config, given))
    )
    loading = options.loading()
    models = [(short, partial(load, name, **loading)) for name, short in folder_names(split(model)).items()]
    plan = Plan(data, split(rules), [WORDINGS[name] for name in names], options, out, runs)
    found = study(models, plan, announced)
    tell(entailment_tables(found), format, out, "entailment")
    draw(lambda: draw_heat_maps(found, out))


_DECIDED = (
    "relations", "split", "subset", "exclude_tails", "tail_tokens", "single_token", "tokens_after_space", "candidates",
    "reading", "sentences", "any_surface", "pool", "add_candidates", "templates", "perplexity", "own_templates", "soft",
    "soft_conjunction", "learnt",
)  # fmt: skip
"""Options that the study decides, or that would ask other items than the premises that they follow from."""
entailment = with_flags(_entailment, EntailmentOptions, without=_DECIDED)
