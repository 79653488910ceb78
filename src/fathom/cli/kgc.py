"""``fathom kgc {train,evaluate,predict,pretrain,study}``"""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import typer

from fathom.cli.config import merge
from fathom.cli.flags import Config, Device, Graph, NewFolder, Printed, RunFolder
from fathom.cli.formats import TableFormat, keep, say, show
from fathom.cli.options import (
    add_command,
    described,
    flag,
    flags_of,
    new_group,
    option,
    taking,
    with_flags,
)
from fathom.cli.probe import unfinished
from fathom.errors import RunFailed, all_of
from fathom.links import LINKS, Kind, named
from fathom.links.options import LinkOptions
from fathom.links.presets import PRESETS
from fathom.options import Group, parse_options
from fathom.progress import is_quiet, shown, starting
from fathom.store.surroundings import NOTED
from fathom.studies.options import GridOptions
from fathom.training.options import PretrainOptions

NOTED_FOR_ALL = {
    "sessions", "host", "device", "threads", "batch_tokens", "left_out", "seconds", "model", "spread",
    "workers_replaced", "parts", "merged", *NOTED,
}  # fmt: skip
"""Circumstances of every run; what stands beside them is the predictor's own (answers proven exact, …)."""
TRAIN = "fathom kgc train --model TransE --data my-graph --out models/transe"


def make(does: str) -> typer.Typer:
    """``fathom kgc``, with the options of every entry of the table of link predictors."""
    app = new_group(does, TRAIN)
    add_command(app, "train", taking(train, [_model_flag(), _preset_flag(), *_flags_of_kinds(asking=False)]), TRAIN)
    add_command(
        app,
        "evaluate",
        taking(evaluate, [*flags_of(LinkOptions), *_flags_of_kinds(asking=True)]),
        "fathom kgc evaluate models/transe --data my-graph --out runs/transe",
    )
    add_command(
        app,
        "predict",
        predict,
        "fathom kgc predict models/transe --data my-graph --relation hypernym --head canine",
    )
    add_command(
        app, "study", with_flags(study, GridOptions), "fathom kgc study infer-or-remember.yaml --out studies/memory"
    )
    add_command(
        app,
        "pretrain",
        with_flags(pretrain, PretrainOptions),
        "fathom kgc pretrain --kind masked --data my-graph --out models/small --contaminate test",
    )
    return app


def _model_flag() -> inspect.Parameter:
    kinds = "; ".join(f"{kind.name} ({kind.does})" for kind in named())
    made = option(Group.MODEL, f"{kinds}; or any model of PyKEEN by its name, such as TransE or ComplEx.")
    return inspect.Parameter("model", inspect.Parameter.KEYWORD_ONLY, default=made, annotation=str)


def _preset_flag() -> inspect.Parameter:
    about = f"Options as a paper had them ({', '.join(PRESETS)}); what is said beside them wins."
    made = option(Group.MODEL, about, default=None)
    return inspect.Parameter("preset", inspect.Parameter.KEYWORD_ONLY, default=made, annotation=str | None)


def _flags_of_kinds(asking: bool) -> list[inspect.Parameter]:
    """The flags of all kinds of predictor, each saying whose it is, without defaults: each kind has its own.

    :param asking: only those that may be changed when a trained model is asked.
    """
    owners: dict[str, list[Kind]] = {}
    for kind in LINKS.entries():
        for name in kind.options.model_fields:
            if name in kind.options.asking() if asking else name != "model":
                owners.setdefault(name, []).append(kind)
    flags = []
    for name, kinds in owners.items():
        whose = "" if len(kinds) == len(LINKS) else f"({', '.join(kind.name for kind in kinds)}) "
        first = kinds[0].options
        flags.append(flag(first, name, whose + described(first.model_fields[name])))
    return flags


def train(model: str, data: Graph, out: RunFolder, config: Config = None, **given: Any) -> None:
    """Train a link predictor on a graph's training triples; stop early by Hits@10 on its validation triples.

    Defaults are those of the original papers: see docs/methods/link-prediction.md.
    """
    with starting("loading libraries"):
        from fathom.api import train_links

    manifest = train_links(model, data, out, **merge(config, given))
    for note in manifest["notes"]:
        say(f"note: {note}")
    ended = manifest["ended"]
    best = f"; best epoch {ended['epoch']}: Hits@10 {ended['hits@10']:.4f} on validation" if ended.get("epoch") else ""
    say(f"ended by {ended['why']}{best}\nkept in {out}; next: fathom kgc evaluate {out} --data {data} --out RUN")


def evaluate(
    data: Graph,
    out: RunFolder,
    model: Path = typer.Argument(..., help="Folder that fathom kgc train made."),
    config: Config = None,
    **given: Any,
) -> None:
    """Rank all entities as tail and as head of a graph's test triples: Hits@k, MRR, MR with intervals, in all, evenly
    over relations and answers, and by which halves of the triple were seen in training."""
    with starting("loading libraries"):
        from fathom.api import evaluate_links
    from fathom.data.queries import SEEN
    from fathom.links.folder import read_manifest

    said = merge(config, given)
    asking = {name: said.pop(name) for name in list(said) if name not in LinkOptions.model_fields}
    result = evaluate_links(model, data, out, None, asking, **said)
    if not result.is_complete():
        say(unfinished(result.folder))
        return
    ended = read_manifest(model)["ended"]
    if ended.get("failed"):
        say(f"note: its training failed: {ended['why']}")
    say(result.summary([SEEN] if SEEN in result.keys else []).to_text())
    if all(line.accuracy is None and line.unscored == line.predictions for line in result.summary().headlines):
        raise RunFailed(f"no question was scored: the reasons stand above; {out} keeps them")
    for what, count in result.folder.manifest["circumstances"].items():
        if what not in NOTED_FOR_ALL:
            say(f"{what.replace('_', ' ')}: {count}")
    say(f"\nkept in {out}; more: fathom metrics {out} --by direction,relation,cardinality,seen,popularity")


def predict(
    data: Graph,
    model: Path = typer.Argument(..., help="Folder that fathom kgc train made."),
    relation: str = option(Group.SELECTION, "Name or id of the relation."),
    head: str | None = option(Group.SELECTION, "Name or id of the head; asks for tails.", default=None),
    tail: str | None = option(Group.SELECTION, "Name or id of the tail; asks for heads.", default=None),
    top: int = option(Group.OUTPUT, "How many answers to print.", default=10, min=1),
    device: Device = None,
    format: Printed = TableFormat.TEXT,
) -> None:
    """Print the best answers to (head, relation, ?) or (?, relation, tail), and whether the graph has them."""
    from fathom.formats import read
    from fathom.links.predict import predict_links, predictions_table

    found = predict_links(model, read(data), relation, head=head, tail=tail, top=top, device=device)
    show([predictions_table(found)], format)


def study(
    plan: Path = typer.Argument(..., help="YAML file: data, worlds, models with their options, seconds per cell."),
    out: Path = option(Group.OUTPUT, "Folder of the study. The same command resumes it where it stopped."),
    retry_failed: bool = option(Group.RUN, "Try cells that failed once more.", "--retry-failed", default=False),
    seeds: str | None = option(
        Group.RUN,
        "Train each cell with each of these seeds, separated by commas; by default as PLAN says.",
        default=None,
    ),
    report_only: bool = option(Group.RUN, "Train nothing; report on what is there.", "--report-only", default=False),
    format: Printed = TableFormat.TEXT,
    **given: Any,
) -> None:
    """Does a model infer or remember? Worlds × models × {pretrained, random}, and what the differences say."""
    from fathom.building.worlds import audits_in
    from fathom.results.plots import save
    from fathom.studies import memory, memory_tables
    from fathom.studies.grid import check_same, run_grid, states
    from fathom.studies.grid_plan import check_plan, read_plan

    planned, options = all_of(
        lambda: read_plan(plan, seeds), lambda: parse_options(GridOptions, merge(config=None, given=given))
    )
    if report_only:
        check_plan(planned)
        check_same(planned, out)
        found = states(planned, out)
    else:
        with shown("cells") as report:
            found = run_grid(planned, out, options, retry_failed, partial(_cell_ended, format), report)
        if left := sum(state.run is None and not state.failed for state in found):
            say(
                f"kept in {out}: {len(found) - left:,} of {len(found):,} cells; the other parts have the rest at work, "
                "or it is left: the same command without --part finishes the study",
                err=format is not TableFormat.TEXT,
            )
            return
    result = memory.analyse(planned, found, out)
    tables = [*memory_tables.tables(result), *audits_in(out / "worlds", planned.worlds)]
    keep(lambda form: tables, out, "memory", memory.conclude(result))
    if correlations := memory_tables.correlation_tables(result):
        keep(lambda form: correlations, out, "correlations")
    show([*tables, *correlations], format, memory.conclude(result))
    drawn = ", ".join(str(file) for plot in memory_tables.plots(result) if (file := save(plot, out)))
    say(f"figures: {drawn}" if drawn else "no figures: pip install 'fathom-lm[report]'", err=True)
    failed = sum(bool(state.failed) for state in found)
    if failed and not report_only:
        raise RunFailed(
            f"{failed} of {len(found)} cells failed, with the reasons in the table; to try them once more: "
            f"fathom kgc study {plan} --out {out}{f' --seeds {seeds}' if seeds else ''} --retry-failed"
        )


def pretrain(
    data: Graph,
    out: NewFolder,
    texts: list[str] = option(
        Group.DATA,
        "More to read: a graph, a data set with sentences, or a .txt file with a text per line; may be repeated.",
        default=[],
    ),
    config: Config = None,
    **given: Any,
) -> None:
    """Pre-train a small language model that was told, or was not told, a graph's test triples."""
    from fathom.formats import read
    from fathom.training.pretraining import pretrain as trained

    options = parse_options(PretrainOptions, merge(config, given))
    with shown(f"pre-training a {options.kind} model") as progress:
        made = trained(read(data), texts, options, out, lambda _, share: progress(round(100 * share), 100))
    told = made["told"]
    fitting = next(kind.name for kind in named() if kind.begins_with == options.kind)
    say(
        f"read {made['texts']:,} texts ({made['left_out']['texts']:,} left out: {made['left_out']['why']}) and "
        f"{told['statements']:,} statements of {told['triples']:,} triples; loss {made['final_loss']:.3f}\n"
        f"kept in {out}; next: fathom kgc train --weights {out} --data {data} --out M --model "
        f"{fitting}"
    )


def _cell_ended(format: TableFormat, line: str) -> None:
    """What programs read on standard output is the tables alone."""
    if not is_quiet():
        say(line, err=format is not TableFormat.TEXT)
