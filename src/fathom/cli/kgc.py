"""``fathom kgc {train,evaluate,predict,pretrain}``"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel, create_model

from fathom.cli.formats import Format
from fathom.cli.options import merge, stoppable, with_flags
from fathom.cli.progress import progress_bar
from fathom.errors import RunFailed
from fathom.links import EMBEDDING, KINDS, Kind
from fathom.links.options import LinkOptions
from fathom.training.options import PretrainOptions

app = typer.Typer(
    help="Complete a knowledge graph: train link predictors and see what they know.", no_args_is_help=True
)
NOTED_FOR_ALL = {"sessions", "host", "device", "batch_tokens", "left_out", "seconds"}
"""Circumstances of every run; what stands beside them is the predictor's own (answers proven exact, …)."""
MODELS = "; ".join(f"{kind.name} ({kind.does})" for kind in KINDS.values())


def _of_all(kinds: Iterable[Kind], asking: bool) -> type[BaseModel]:
    """The fields of several kinds in one, each saying whose it is; only to show and read flags."""
    fields: dict[str, Any] = {}
    owners: dict[str, list[str]] = {}
    for kind in kinds:
        wanted = kind.options.asking() if asking else kind.options.model_fields.keys() - {"model"}
        for name, field in kind.options.model_fields.items():
            if name in wanted:
                fields.setdefault(name, field)
                owners.setdefault(name, []).append(kind.name)
    for name, field in fields.items():
        mine = "" if len(owners[name]) > len(KINDS) else f"({', '.join(owners[name])}) "
        about: Any = field._copy()
        about.description = mine + (field.description or "")
        about.default, about.default_factory = None, None  # each kind has its own
        fields[name] = (field.annotation, about)
    return create_model("Options", **fields)


BEGINS_WITH = {"masked": "simkgc", "t5": "kgt5", "bart": "genkgc", "causal": "prompted"}
"""Which predictor a kind of pre-trained model is for."""
_ALL = [EMBEDDING, *KINDS.values()]


def _train(
    model: str = typer.Option(..., help=f"{MODELS}; or any model of PyKEEN by its name, such as TransE or ComplEx."),
    data: str = typer.Option(..., help="A knowledge graph: its folder, or a file of triples."),
    out: Path = typer.Option(..., help="Folder of the model. The same command goes on where it stopped."),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    **given: Any,
) -> None:
    """Train a link predictor on a graph's training triples; stop early by Hits@10 on its validation triples.

    Defaults are those of the original papers: see docs/methods/link-prediction.md.
    """
    from fathom.api import train_links

    with progress_bar(f"training {model}") as progress:
        manifest = train_links(model, data, out, progress, **merge(config, given))
    for note in manifest["notes"]:
        typer.echo(f"note: {note}")
    ended = manifest["ended"]
    best = f"; best epoch {ended['epoch']}: Hits@10 {ended['hits@10']:.4f} on validation" if ended.get("epoch") else ""
    typer.echo(f"ended by {ended['why']}{best}\nkept in {out}; next: fathom kgc evaluate {out} --data {data} --out RUN")


def _evaluate(
    model: Path = typer.Argument(..., help="Folder that fathom kgc train made."),
    data: str = typer.Option(..., help="The graph it was trained on, or a world made of it."),
    out: Path = typer.Option(..., help="Folder of the run. The same command goes on where it stopped."),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    **given: Any,
) -> None:
    """Rank all entities as tail and as head of a graph's test triples: Hits@k, MRR, MR with intervals."""
    from fathom.api import evaluate_links
    from fathom.links.folder import read_manifest

    said = merge(config, given)
    asking = {name: said.pop(name) for name in list(said) if name not in LinkOptions.model_fields}
    with progress_bar(f"asking {model.name}") as progress:
        result = evaluate_links(model, data, out, progress, asking, **said)
    ended = read_manifest(model)["ended"]
    if ended.get("failed"):
        typer.echo(f"note: its training failed: {ended['why']}")
    typer.echo(result.summary().to_text())
    if all(line.accuracy is None and line.unscored == line.predictions for line in result.summary().headlines):
        raise RunFailed(f"no question was scored: the reasons stand above; {out} keeps them")
    for what, count in result.folder.manifest["circumstances"].items():
        if what not in NOTED_FOR_ALL:
            typer.echo(f"{what.replace('_', ' ')}: {count}")
    typer.echo(f"\nkept in {out}; more: fathom metrics {out} --by direction,relation,cardinality")


def predict(
    model: Path = typer.Argument(..., help="Folder that fathom kgc train made."),
    data: str = typer.Option(..., help="The graph it was trained on, or a world made of it."),
    relation: str = typer.Option(..., help="Name or id of the relation."),
    head: str | None = typer.Option(None, help="Name or id of the head; asks for tails."),
    tail: str | None = typer.Option(None, help="Name or id of the tail; asks for heads."),
    top: int = typer.Option(10, min=1, help="How many answers to print."),
    device: str | None = typer.Option(None, help="cpu, cuda, …"),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """The best answers to (head, relation, ?) or (?, relation, tail), with scores and whether the graph has them."""
    from fathom.formats import read
    from fathom.links.predict import predict_links
    from fathom.links.tables import predictions_table
    from fathom.results.tables import render

    found = predict_links(model, read(data), relation, head=head, tail=tail, top=top, device=device)
    typer.echo(render([predictions_table(found)], str(format)))


def study(
    plan: Path = typer.Argument(..., help="YAML file: data, worlds, models with their options, seconds per cell."),
    out: Path = typer.Option(..., help="Folder of the study. The same command goes on where it stopped."),
    workers: int = typer.Option(1, min=1, help="Cells at a time; each uses one core then."),
    retry_failed: bool = typer.Option(False, "--retry-failed", help="Try cells that failed once more."),
    report_only: bool = typer.Option(False, "--report-only", help="Train nothing; report on what is there."),
    format: Format = typer.Option(Format.TEXT, help="How to print."),  # noqa: A002 - the name of the flag
) -> None:
    """Does a model infer or remember? Worlds × models × {pretrained, random}, and what the differences say."""
    from fathom.cli.tables import tell
    from fathom.studies.grid import check_plan, check_same, read_plan, run_grid, states
    from fathom.studies.memory import memory
    from fathom.studies.memory_tables import correlation_tables, draw_memory, memory_tables

    with stoppable():
        given = read_plan(plan)
        if report_only:
            check_plan(given)
            check_same(given, out)
            found = states(given, out)
        else:
            found = run_grid(given, out, workers, retry_failed, typer.echo)
        result = memory(given, found, out)
    tell(memory_tables(result), format, out, "memory")
    if correlation_tables(result):
        tell(correlation_tables(result), format, out, "correlations")
    drawn = ", ".join(map(str, draw_memory(result, out)))
    typer.echo(f"figures: {drawn}" if drawn else "no figures: pip install 'fathom-lm[report]'", err=True)
    failed = sum(bool(state.failed) for state in found)
    if failed and not report_only:
        raise RunFailed(
            f"{failed} of {len(found)} cells failed, with the reasons in the table; to try them once more: "
            f"fathom kgc study {plan} --out {out} --retry-failed"
        )


def _pretrain(
    data: str = typer.Option(..., help="A knowledge graph: its folder, or a file of triples. Its texts are read, too."),
    out: Path = typer.Option(..., help="Folder of the model; must not exist yet."),
    texts: list[str] = typer.Option(
        [], help="More to read, may be repeated: a graph, a data set with sentences, a .txt file with a text per line."
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options; flags win."),
    **given: Any,
) -> None:
    """Pre-train a small language model that was told, or was not told, a graph's test triples."""
    from fathom.formats import read
    from fathom.options import parse_options
    from fathom.training.pretraining import pretrain

    options = parse_options(PretrainOptions, merge(config, given))
    with progress_bar(f"pre-training a {options.kind} model") as progress:
        made = pretrain(read(data), texts, options, out, lambda _, share: progress(round(100 * share), 100))
    told = made["told"]
    typer.echo(
        f"read {made['texts']:,} texts ({made['left_out']['texts']:,} left out: {made['left_out']['why']}) and "
        f"{told['statements']:,} statements of {told['triples']:,} triples; loss {made['final_loss']:.3f}\n"
        f"kept in {out}; next: fathom kgc train --weights {out} --data {data} --out M --model "
        f"{BEGINS_WITH[options.kind]}"
    )


app.command("train")(with_flags(_train, _of_all(_ALL, asking=False)))
app.command("evaluate")(
    with_flags(
        _evaluate,
        create_model(
            "Evaluate",
            __base__=LinkOptions,
            **{  # type: ignore[call-overload]
                name: (field.annotation, field) for name, field in _of_all(_ALL, asking=True).model_fields.items()
            },
        ),
    )
)
app.command("predict")(predict)
app.command("study")(study)
app.command("pretrain")(with_flags(_pretrain, PretrainOptions))
