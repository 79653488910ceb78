"""``fathom study ablation|agreement|length-bias|prompts|sizes|compute-time``"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.console import Console

from fathom.cli.formats import Format
from fathom.cli.options import merge, with_flags
from fathom.cli.tables import draw, keep, split, tell
from fathom.probes.options import EmbeddingOptions, FewShotOptions, ProbeOptions, StatementOptions
from fathom.results.tables import Table

if TYPE_CHECKING:
    from fathom.studies.entities import Asked

app = typer.Typer(help="Run planned comparisons, or analyse finished runs.", no_args_is_help=True)


def make(does: str) -> typer.Typer:
    """``fathom study``"""
    from fathom.cli import study_approaches, study_choice, study_entailment, study_ontology

    study_approaches.app.command("choice")(study_choice.choice)
    study_approaches.app.command("ontology")(study_ontology.ontology)
    study_approaches.app.command("entailment")(study_entailment.entailment)
    return study_approaches.app


def _ablation(
    model: str = typer.Option(..., help="Name or folder of a transformers model."),
    data: str = typer.Option(..., help="Data folder, or the name of an embedded data set."),
    out: Path = typer.Option(
        ..., help="Folder for the runs and the tables. The same command goes on where it stopped."
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
    **given: Any,
) -> None:
    """Does it matter how statements are scored? Sum or mean, full or conditional, and the masking variants, paired."""
    from fathom.formats import read
    from fathom.models.loading import load
    from fathom.options import parse_options
    from fathom.studies.ablation import ablation
    from fathom.studies.ablation_tables import ablation_tables

    options = parse_options(StatementOptions, merge(config, given))
    found = ablation(load(model, **options.loading()), read(data), options, out, announced)
    tell(ablation_tables(found), format, out, "ablation")


def _agreement(
    first: Path = typer.Argument(help="Folder of a run."),
    second: Path = typer.Argument(help="Folder of another run, asked with the same candidates."),
    k: int = typer.Option(10, min=1, help="A rank up to k is a hit."),
    scoring: str | None = typer.Option(
        None, help="Of both runs, or two with a comma between; by default the only one."
    ),
    out: Path | None = typer.Option(None, help="Folder for tables and picture."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
) -> None:
    """Do two probes agree? Correlation of their ranks, and quadrants of hits and misses."""
    from fathom.store.folder import RunFolder
    from fathom.studies.agreement import agreement
    from fathom.studies.entities_tables import agreement_tables, draw_agreement

    scorings: list[str | None] = [*split(scoring or "")] or [None]
    found = agreement(RunFolder.open(first), RunFolder.open(second), k, (scorings[0], scorings[-1]))
    tell(agreement_tables(found), format, out, "agreement")
    if out is not None:
        points = Table(("fact", found.first, found.second), tuple(found.points), "ranks")
        keep(out / "agreement-ranks.csv", points)
        draw(lambda: draw_agreement(found, out / "agreement.png"))


def _length_bias(
    runs: list[Path] = typer.Argument(help="Folders of runs."),
    scoring: str | None = typer.Option(None, help="Of the runs; by default their only one."),
    tokenizer: str | None = typer.Option(
        None, help="Model whose tokenizer counts the answers' tokens, alike for all runs (behind a space)."
    ),
    out: Path | None = typer.Option(None, help="Folder for tables and pictures."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
) -> None:
    """Does a probe favour short names? Correlation of the gold answer's rank with its number of tokens."""
    from fathom.store.folder import RunFolder
    from fathom.studies.entities_tables import draw_length_bias, length_bias_tables
    from fathom.studies.length_bias import length_bias

    found = length_bias([RunFolder.open(run) for run in runs], scoring, _counter(tokenizer))
    tell(length_bias_tables(found), format, out, "length-bias")
    if out is not None:
        for number, bias in enumerate(found):
            keep(out / f"length-bias-{number}.csv", Table(("fact", "tokens", "rank"), tuple(bias.points), bias.name))
            draw(lambda: draw_length_bias(bias, out / f"length-bias-{number}.png"))  # noqa: B023 - called at once


def _prompts(
    model: str = typer.Option(..., help="Name or folder of a transformers model."),
    data: str = typer.Option(..., help="Data folder, or the name of an embedded data set."),
    out: Path = typer.Option(..., help="Folder for the runs and the table. The same command goes on where it stopped."),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
    **given: Any,
) -> None:
    """How much do the embedding probe's results depend on the wording of its tail prompts?"""
    from fathom.formats import read
    from fathom.models.loading import load
    from fathom.options import parse_options
    from fathom.studies.entities import prompt_sensitivity
    from fathom.studies.entities_tables import scored_table

    options = parse_options(EmbeddingOptions, merge(config, given))
    lines = prompt_sensitivity(load(model, **options.loading()), read(data), options, out, announced)
    tell([scored_table("embedding probe by tail prompt", lines)], format, out, "prompts")


def _sizes(
    models: str = typer.Option(..., help="Names or folders of models, separated by commas."),
    data: str = typer.Option(..., help="Data folder, or the name of an embedded data set."),
    out: Path = typer.Option(..., help="Folder for the runs and the table. The same command goes on where it stopped."),
    probes: str = typer.Option("embedding,vocabulary,statement", help="Probes, separated by commas."),
    max_rank: int | None = typer.Option(
        None, help="Where the statement probe may stop; by default 100, which Hits@100 needs."
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
    **given: Any,
) -> None:
    """Do larger models hold more facts, by every probe? Hits@1, 10 and 100 of each model and probe."""
    from fathom.formats import read
    from fathom.models.loading import load
    from fathom.studies.entities import sizes
    from fathom.studies.entities_tables import scored_table

    asked = _asked(split(probes), {"max_rank": 100} | merge(config, given), max_rank)
    loading = asked[0].options.loading()
    chosen = [(name, partial(load, name, **loading)) for name in split(models)]
    lines, growth = sizes(chosen, read(data), asked, out, announced)
    tell([scored_table("growth with the size of the model", lines, growth)], format, out, "sizes")


def _compute_time(
    model: str = typer.Option(..., help="Name or folder of a transformers model."),
    data: str = typer.Option(..., help="Data folder, or the name of an embedded data set."),
    out: Path = typer.Option(..., help="New folder for the runs and the table."),
    probes: str = typer.Option("embedding", help="Probes, separated by commas."),
    queries: str = typer.Option("16,31,46,61,76,91,106,121,136,151", help="Numbers of queries to time."),
    repeats: int = typer.Option(3, min=1, help="How often each."),
    total: int | None = typer.Option(None, help="Queries to extrapolate to; by default all of the data."),
    max_rank: int | None = typer.Option(None, help="Where the statement probe may stop."),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),
    **given: Any,
) -> None:
    """How long does a probe take? Time against number of queries, a line through it, and what it says of all."""
    from fathom.errors import BadInput
    from fathom.formats import read
    from fathom.models.loading import load
    from fathom.studies.entities import compute_time
    from fathom.studies.entities_tables import draw_timing, timing_table

    if not all(part.isdigit() and int(part) for part in split(queries)):
        raise BadInput(f"--queries: expected numbers separated by commas, found {queries!r}")
    counts = [int(part) for part in split(queries)]
    asked = _asked(split(probes), merge(config, given), max_rank)
    loaded, facts = load(model, **asked[0].options.loading()), read(data)
    found = [compute_time(loaded, facts, one, counts, out, announced, repeats=repeats, total=total) for one in asked]
    tell([timing_table(found)], format, out, "compute-time")
    for timing in found:
        draw(lambda: draw_timing(timing, out / f"compute-time-{timing.probe}.png"))  # noqa: B023 - called at once


def _asked(probes: list[str], given: dict[str, Any], max_rank: int | None) -> list[Asked]:
    """Each probe with those of the options that it has. :raises BadInput: an option that none has."""
    from fathom.errors import BadInput
    from fathom.options import parse_options
    from fathom.probes import PROBES
    from fathom.studies.entities import Asked

    entries = [PROBES.find(probe) for probe in probes]
    faults = [f"the {entry.name} probe asks a {entry.asks}" for entry in entries if entry.asks != "language model"]
    if faults:
        raise BadInput(faults)
    given |= {} if max_rank is None else {"max_rank": max_rank}
    fields = {name for entry in entries for name in entry.options.model_fields} | {"max_rank"}
    unknown = sorted(given.keys() - fields)
    if unknown or not entries:
        raise BadInput(f"there is no option {', '.join(unknown)}: there is {', '.join(sorted(fields))}")
    return [
        Asked(
            entry.name,
            cast(
                ProbeOptions,
                parse_options(entry.options, {k: v for k, v in given.items() if k in entry.options.model_fields}),
            ),
        )
        for entry in entries
    ]


def _of(fields: Collection[str], given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in fields}


def _counter(tokenizer: str | None) -> Callable[[list[str]], list[int]] | None:
    """Number of tokens of each text behind a space, as names stand in statements."""
    if tokenizer is None:
        return None
    from fathom.models.loading import load_tokenizer
    from fathom.scoring.names import token_counter

    count = token_counter(load_tokenizer(tokenizer))
    return lambda texts: count([" " + text for text in texts])


def announced(name: str) -> Callable[[int, int], None]:
    console = Console(stderr=True)

    def tell(done: int, total: int) -> None:
        if console.is_terminal:
            console.print(f"{name}: {done}/{total} shards", end="\r")

    return tell


app.command("ablation")(with_flags(_ablation, StatementOptions, without=("reduction", "score", "pll")))
app.command("agreement")(_agreement)
app.command("length-bias")(_length_bias)
app.command("prompts")(with_flags(_prompts, EmbeddingOptions, without=("tail_template",)))
app.command("sizes")(with_flags(_sizes, FewShotOptions))
app.command("compute-time")(with_flags(_compute_time, FewShotOptions, without=("limit",)))
app.callback()(lambda: None)
