"""``fathom kgc {train,evaluate,predict,pretrain}``"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import BaseModel, ConfigDict

from fathom.base.errors import RunFailed
from fathom.base.options import ARGUMENT, REPEATED, Given, Group, config_only, opt
from fathom.base.progress import shown, starting
from fathom.base.registry import CommandEntry
from fathom.cli.commands import add_command, described, file_options, flag, flags_of, free_flag, new_group
from fathom.cli.formats import PrintOptions, breakdown_command, say, say_unfinished
from fathom.cli.probe import RunFolder
from fathom.data.options import Device, Graph, NewFolder
from fathom.data.selection.options import Columns
from fathom.store.surroundings import NOTED
from fathom_kgc.links import LINKS, PRESETS, PYKEEN, Kind, named
from fathom_kgc.links.options import LinkOptions, LinkTraining
from fathom_kgc.pretraining.options import PretrainOptions

NOTED_FOR_ALL = {
    "command", "sessions", "host", "device", "threads", "batch_tokens", "left_out", "seconds", "model", "spread",
    "workers_replaced", "parts", "merged", "compared_sequences", "largest_difference", *NOTED,
}  # fmt: skip
"""Circumstances of all runs; others are the predictor's, such as answers proven exact."""
TRAIN = "fathom kgc train pykeen --model TransE --data my-graph --out models/transe"


def make(entry: CommandEntry) -> typer.Typer:
    """Make ``fathom kgc``."""
    app = new_group(entry.does, TRAIN)
    app.add_typer(_train_group(), name="train")
    asking = list(_options_of_asking())
    in_files = {name: text for kind, name, text in asking if name in config_only(kind)}
    add_command(
        app,
        evaluate,
        example="fathom kgc evaluate models/transe --data my-graph --out runs/transe",
        flags=[*flags_of(LinkOptions), *(flag(*each) for each in asking if each[1] not in in_files)],
        in_files=file_options(LinkOptions) | in_files,
    )
    add_command(
        app, predict, example="fathom kgc predict models/transe --data my-graph --relation hypernym --head canine"
    )
    add_command(
        app, pretrain, example="fathom kgc pretrain --kind masked --data my-graph --out models/small --contaminate test"
    )
    return app


def _train_group() -> typer.Typer:
    """Make ``fathom kgc train``, with a command for each entry of the registry of link predictors."""
    app = new_group(inspect.cleandoc(train.__doc__ or ""), TRAIN)
    for kind in LINKS.entries():
        presets = [name for name, kinds in PRESETS.items() if kind.name in kinds]
        said = f"Options of a paper ({', '.join(presets)}); options typed in addition win."
        add_command(
            app,
            partial(train, kind),
            TrainFiles,
            example=_example(kind),
            name=kind.name,
            does=f"{kind.does[0].upper()}{kind.does[1:]}.",
            flags=[*([free_flag("preset", Group.MODEL, said)] if presets else []), *flags_of(kind.options)],
            in_files=file_options(kind.options),
        )
    return app


def _example(kind: Kind) -> str:
    if kind is PYKEEN:
        return TRAIN
    weights = kind.options.model_fields.get("weights")
    starts = " --weights my-model" if weights is not None and weights.is_required() else ""
    return f"fathom kgc train {kind.name}{starts} --data my-graph --out models/{kind.name}"


def _options_of_asking() -> Iterator[tuple[type[LinkTraining], str, str]]:
    """Yield the options that may be changed when a trained model is evaluated: model, name, and help with its kinds."""
    owners: dict[str, list[Kind]] = {}
    for kind in LINKS.entries():
        asking = kind.options.asking() | {"server"}
        for name in (name for name in kind.options.model_fields if name in asking):
            owners.setdefault(name, []).append(kind)
    for name, kinds in owners.items():
        prefix = "" if len(kinds) == len(LINKS) else f"({', '.join(kind.name for kind in kinds)}) "
        first = kinds[0].options
        yield first, name, prefix + described(first.model_fields[name])


TrainedModel = Annotated[Path, opt(..., "Folder that fathom kgc train made.", ARGUMENT)]


class LinkFiles(BaseModel):
    """The graph of a command on link predictors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.SELECTION

    data: Graph


class TrainFiles(LinkFiles):
    """Options of ``fathom kgc train`` that all kinds of predictor have."""

    columns: Columns = None
    out: RunFolder


class EvaluateFiles(LinkFiles):
    """Options of ``fathom kgc evaluate`` that all kinds of predictor have."""

    model: TrainedModel
    out: RunFolder
    dry_run: bool = opt(False, "Only print the estimated time and memory, from a few queries.", Group.RUN)


class PredictOptions(LinkFiles):
    columns: Columns = None
    model: TrainedModel
    relation: str = opt(..., "Name or id of the relation.")
    head: str | None = opt(None, "Name or id of the head; predicts tails.")
    tail: str | None = opt(None, "Name or id of the tail; predicts heads.")
    top: int = opt(10, "How many answers to print.", Group.OUTPUT, ge=1)
    device: Device = None


class PretrainFiles(LinkFiles):
    """Input and output of ``fathom kgc pretrain``."""

    columns: Columns = None
    out: NewFolder
    texts: tuple[str, ...] = opt(
        (),
        "Further texts: a graph, a data set with sentences, or a .txt file with a text per line; may be repeated.",
        Group.DATA,
        REPEATED,
    )


def train(kind: Kind, files: TrainFiles, values: Given) -> None:
    """Train a link predictor on a graph's training triples; stop early by Hits@10 on its validation triples.

    Defaults are those of the original papers: see docs/notes/link-prediction.md.
    """
    with starting("loading libraries"):
        from fathom.data.formats import read
        from fathom_kgc.api import train_links

    name = str(values.pop("model", "")) if kind is PYKEEN else kind.name
    manifest = train_links(name, read(files.data, files.columns), files.out, **values)
    for note in manifest["notes"]:
        say(f"note: {note}")
    ended = manifest["ended"]
    best = f"; best epoch {ended['epoch']}: Hits@10 {ended['hits@10']:.4f} on validation" if ended.get("epoch") else ""
    say(
        f"training ended: {ended['why']}{best}\n"
        f"written to {files.out}; next: fathom kgc evaluate {files.out} --data {files.data} --out RUN"
    )


def evaluate(files: EvaluateFiles, values: Given) -> None:
    """Rank all entities as tail and as head of a graph's test triples: Hits@k, MRR, MR with intervals.

    Overall, averaged over relations and answers, and by which parts of the triple were seen in training.
    """
    with starting("loading libraries"):
        from fathom_kgc.api import evaluate_links, forecast_links
    from fathom.data.queries import POPULARITY, SEEN
    from fathom_kgc.links.base import read_manifest

    asking = {name: values.pop(name) for name in list(values) if name not in LinkOptions.model_fields}
    if files.dry_run:
        say("\n".join(forecast_links(files.model, files.data, asking, **values).lines()))
        return
    result = evaluate_links(files.model, files.data, files.out, None, asking, **values)
    if not result.is_complete():
        say_unfinished(files.out, result.folder.describe())
        return
    ended = read_manifest(files.model)["ended"]
    if ended.get("failed"):
        say(f"note: its training failed: {ended['why']}")
    say(result.summary([SEEN] if SEEN in result.keys else []).to_text())
    if all(line.accuracy is None and line.unscored == line.predictions for line in result.summary().headlines):
        raise RunFailed(f"no query was scored: the reasons are above; {files.out} keeps them")
    for name, value in result.folder.manifest["circumstances"].items():
        if name not in NOTED_FOR_ALL:
            say(f"{name.replace('_', ' ')}: {value}")
    keys = ("direction", "relation", "cardinality", SEEN, POPULARITY)
    say(f"\nwritten to {files.out}; more: {breakdown_command(files.out, result.keys, keys)}")


def predict(options: PredictOptions, printed: PrintOptions) -> None:
    """Print the best answers to (head, relation, ?) or (?, relation, tail), and whether the graph has them."""
    from fathom.data.formats import read
    from fathom_kgc.links.probe import predict_links

    question = options.model_dump(exclude={"model", "data", "columns"})
    printed.show([predict_links(options.model, read(options.data, options.columns), **question)])


def pretrain(files: PretrainFiles, options: PretrainOptions) -> None:
    """Pre-train a small language model with or without a graph's test triples."""
    from fathom.data.formats import read
    from fathom_kgc.pretraining import pretrain as pretrain_model

    out, data = files.out, files.data
    with shown(f"pre-training a {options.kind} model") as progress:
        manifest = pretrain_model(
            read(data, files.columns), files.texts, options, out, lambda _, share: progress(round(100 * share), 100)
        )
    stated, left_out = manifest["stated"], manifest["left_out"]
    shape = "masked" if options.kind == "contrastive" else options.kind  # both are encoders
    kind = next(kind.name for kind in named() if kind.begins_with == shape)
    say(
        f"read {manifest['texts']:,} texts ({left_out['texts']:,} excluded: {left_out['why']}) and "
        f"{stated['statements']:,} statements of {stated['triples']:,} triples; loss {manifest['final_loss']:.3f}\n"
        f"written to {out}; next: fathom kgc train {kind} --weights {out} --data {data} --out M"
    )
