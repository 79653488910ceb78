"""Do larger models hold more facts, by every probe? (Tables 4 and 8 of the DEER paper.)"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from fathom.data.queries import QuerySet
from fathom.errors import BadInput, refuse
from fathom.formats import read
from fathom.models.base import Model
from fathom.options import parse_options
from fathom.probes import PROBES
from fathom.probes.options import AskingOptions
from fathom.results.names import folder_names
from fathom.results.numbers import Number
from fathom.results.outcomes import every_scoring
from fathom.results.tables import Table
from fathom.run import run
from fathom.store.folder import RunFolder
from fathom.studies import Announce
from fathom.studies.options import SeveralProbesOptions, SizesOptions

CUTS = (1, 10, 100)
MAX_RANK = 100
"""Where the statement probe stops unless told otherwise: the greatest cut needs no more."""


class HitsLine(NamedTuple):
    """One run in one scoring.

    :param probe: with the scoring.
    :param parameters: of the model, None where they do not matter.
    :param hits: Hits@k for each of :data:`CUTS`; without a value where the search stopped before k.
    :param queries: how many were asked; of a fact that several ask, one.
    :param unscored: queries without a rank, counted and left out.
    """

    probe: str
    name: str
    parameters: int | None
    hits: tuple[Number, ...]
    queries: int
    unscored: int


class Growth(NamedTuple):
    """The k of Hits@k that rise from each size to the next, and those that do not."""

    rising: list[int]
    not_rising: list[int]


class AskedProbe(NamedTuple):
    """A probe with its options."""

    probe: str
    options: AskingOptions


class Sizes(NamedTuple):
    """Models in order of size, and of each probe and scoring what grows."""

    lines: list[HitsLine]
    growth: dict[str, Growth]


def ask(
    models: Sequence[tuple[str, Callable[[], Model]]],
    data: str | Path | QuerySet,
    options: SizesOptions,
    out: Path,
    announce: Announce,
) -> Sizes:
    """Every probe asked of every model.

    :param models: name and how to load it, one in memory at a time.
    """
    asked = asked_of(options, {"max_rank": MAX_RANK})
    names = folder_names([name for name, _ in models])
    queryset = data if isinstance(data, QuerySet) else read(data)
    found: list[HitsLine] = []
    for (name, load), short in zip(models, names, strict=True):
        model = load()
        for probe, chosen in asked:
            folder = run(probe, model, queryset, chosen, out / f"{probe}-{short}", announce(f"{probe} {name}"))
            found += hits_lines(folder, short, options.cluster, model.parameters)
    found.sort(key=lambda line: (line.probe, line.parameters or 0))
    probes = dict.fromkeys(line.probe for line in found)
    return Sizes(found, {probe: rises([line for line in found if line.probe == probe]) for probe in probes})


def asked_of(options: SeveralProbesOptions, usual: dict[str, object] | None = None) -> list[AskedProbe]:
    """Each probe with those of the options that it has.

    :param usual: where nothing was said.
    :raises BadInput: no probe, one of link predictors, an option that none has.
    """
    entries = [PROBES.find(probe) for probe in options.probes]
    given = (usual or {}) | options.given()
    refuse(f"the {entry.name} probe asks a {entry.asks}" for entry in entries if entry.asks != "language model")
    fields = {name for entry in entries for name in entry.options.model_fields} | {"max_rank"}
    unknown = sorted(given.keys() - fields)
    if unknown or not entries:
        raise BadInput(f"there is no option {', '.join(unknown)}: there is {', '.join(sorted(fields))}")
    return [
        AskedProbe(
            entry.name,
            parse_options(entry.options, {k: v for k, v in given.items() if k in entry.options.model_fields}),
        )
        for entry in entries
    ]


def rises(lines: Sequence[HitsLine]) -> Growth:
    """Of the k that every run tells. :param lines: in order of size; equal is not rising."""
    growth = Growth([], [])
    for place, k in enumerate(CUTS):
        values = [hit.value for line in lines if (hit := line.hits[place]).n]
        if len(values) > 1 and len(values) == len(lines):
            growth[0 if all(small < large for small, large in pairwise(values)) else 1].append(k)
    return growth


def tables(found: Sizes) -> list[Table]:
    """One; what rises with size and what does not stands below it, where there is something to compare."""
    notes = []
    for probe, (rising, not_rising) in found.growth.items():
        said = ((rising, "rises from each size to the next"), (not_rising, "does not rise at every step"))
        notes += [f"{probe}: hits@{', @'.join(map(str, cuts))} {verdict}" for cuts, verdict in said if cuts]
    return [hits_table("growth with the size of the model", found.lines, notes)]


# --- Hits@1, 10 and 100 of runs that a study has made, one line per run and scoring


def hits_lines(run: RunFolder, name: str, cluster: str, parameters: int | None = None) -> list[HitsLine]:
    """One line per scoring."""
    return [
        HitsLine(
            f"{outcome.probe} {outcome.scoring}",
            name,
            parameters,
            tuple(outcome.mean(f"hits@{k}", outcome.hits(k)) for k in CUTS),
            len(outcome.facts),
            len(outcome.left_out),
        )
        for outcome in every_scoring(run, name, cluster)
    ]


def hits_table(title: str, lines: Sequence[HitsLine], notes: Iterable[str] = ()) -> Table:
    """With intervals."""
    columns = [f"hits@{k}" for k in CUTS]
    return Table.of_numbers(
        ("probe", "model or prompt", "parameters", *columns, "queries", "unscored"),
        [(*line[:3], *line.hits, line.queries, line.unscored) for line in lines],
        title,
        {f"hits@{k}": (f"low@{k}", f"high@{k}") for k in CUTS},
        dict.fromkeys(columns, ".1%"),
        notes,
    )
