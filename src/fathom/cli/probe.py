"""``fathom probe PROBE --model M --data D --out RUN``"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from fathom.cli.config import merge
from fathom.cli.flags import Config, Data, RunFolder
from fathom.cli.formats import say
from fathom.cli.options import add_command, new_group, option, with_flags
from fathom.options import Group
from fathom.probes import PROBES, Entry
from fathom.progress import starting


def make(does: str) -> typer.Typer:
    """``fathom probe``, with a command for each entry of the table of probes."""
    app = new_group(does, next(iter(PROBES.values())).example)
    for name, entry in PROBES.items():
        if entry.needs == "language model":  # link predictors: fathom kgc evaluate
            add_command(app, name, _command(entry), entry.example, does=entry.does, hidden=name == entry.alias)
    return app


def _command(entry: Entry) -> Callable[..., None]:
    def command(
        data: Data,
        out: RunFolder,
        model: str = option(Group.MODEL, _model_help(entry)),
        config: Config = None,
        **given: Any,
    ) -> None:
        with starting(f"{entry.name} probe: loading libraries"):
            from fathom.api import probe
        result = probe(entry.name, model, data, out, **merge(config, given))
        if not result.is_complete():
            say(unfinished(result.folder))
            return
        found = result.summary()
        say(found.to_text())
        more = f"fathom metrics {out} --by relation,cardinality,domain,template"
        say(f"{_searched(*found.searched)}\nkept in {out}; more: {more}")

    return with_flags(command, entry.options)


def unfinished(folder: Any) -> str:
    """What is said of a run of which only parts are finished."""
    done, plan = folder.finished(), folder.manifest["plan"]
    return (
        f"kept in {folder.path}: {len(done & set(plan)):,} of {len(plan):,} shards; the other parts have the rest at "
        "work, or it is left: the same command without --part finishes the run, and fathom merge puts folders together"
    )


def _model_help(entry: Entry) -> str:
    served = ", or what --server calls it" if "server" in entry.options.model_fields else ""
    return f"Name or folder of a transformers model{served}."


def _searched(run: int, full: int, naive: int) -> str:
    """What the exact search cost, where it was used: each token is a node of the answers' trie."""
    if not run:
        return ""
    return (
        f"exact search: {run:,} tokens run, {full:,} without pruning, {naive:,} one statement at a time "
        f"({naive / run:,.0f} times as many)\n"
    )
