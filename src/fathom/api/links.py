"""Link predictors in Python: trained, and asked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from fathom.api.result import Out, Result, Source, read_source
from fathom.data.graph.queries import link_queryset
from fathom.errors import all_of
from fathom.links.options import LinkOptions
from fathom.options import parse_options
from fathom.probes.asking_options import HERE
from fathom.progress import Shown, shown
from fathom.run import run

if TYPE_CHECKING:
    from fathom import keywords


@overload
def train_links(
    model: Literal["simkgc"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.SimKgc],
) -> dict[str, Any]: ...
@overload
def train_links(
    model: Literal["knn-kge"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.KnnKge],
) -> dict[str, Any]: ...
@overload
def train_links(
    model: Literal["kg-bert"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.KgBert],
) -> dict[str, Any]: ...
@overload
def train_links(
    model: Literal["kgt5"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.Kgt5],
) -> dict[str, Any]: ...
@overload
def train_links(
    model: Literal["genkgc"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.GenKgc],
) -> dict[str, Any]: ...
@overload
def train_links(
    model: Literal["prompted"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.Prompted],
) -> dict[str, Any]: ...
@overload
def train_links(
    model: Literal["ultra"],
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.Ultra],
) -> dict[str, Any]: ...
@overload  # a model of PyKEEN
def train_links(
    model: str,
    data: Source,
    out: str | Path,
    progress: Shown = None,
    *,
    preset: str | None = None,
    **options: Unpack[keywords.Embedding],
) -> dict[str, Any]: ...
def train_links(model: str, data: Source, out: str | Path, progress: Shown = None, **options: Any) -> dict[str, Any]:
    """Train a link predictor of a knowledge graph into the folder *out*, or go on with a training that was stopped.

    :param model: "simkgc", "knn-kge", "kg-bert", "kgt5", "genkgc", "prompted", or a model of PyKEEN, such as "TransE".
    :param options: of its kind, see ``fathom kgc train --model KIND --help``; ``preset="sakai2024"`` for a paper's.
    :returns: the content of its ``link.json``: ``ended`` says why and where.
    :raises BadInput: everything that is wrong with options and data, at once.
    :raises RunFailed: NaN, a full disk.
    """
    from fathom.links import find as find_kind
    from fathom.links import folder

    kind = find_kind(model)
    chosen, queryset = all_of(lambda: kind.parse(model, options), lambda: read_source(data))
    with shown(f"training {model}", progress) as report:
        return folder.train_links(model, queryset, chosen, out, report)


def evaluate_links(
    model: str | Path,
    data: Source,
    out: Out = None,
    progress: Shown = None,
    asking: dict[str, Any] | None = None,
    **options: Unpack[keywords.LinkOptions],
) -> Result:
    """Ask a trained link predictor for the heads and tails of a graph's triples, among all entities, filtered.

    :param model: a folder that :func:`train_links` made.
    :param data: its graph, or a world made of it.
    :param asking: options of its kind to ask it with instead of those it was trained with.
    :param options: see :class:`fathom.links.options.LinkOptions`.
    :raises BadInput: everything that is wrong with model, options and data, at once.
    """
    from fathom.links.folder import open_links

    chosen, queryset = all_of(lambda: parse_options(LinkOptions, dict(options)), lambda: read_source(data))
    here = chosen.device if chosen.engine == HERE else "cpu"  # workers have their own
    predictor = open_links(model, queryset, here, asking)
    asked = link_queryset(queryset, chosen.directions)
    with shown(f"asking {Path(model).name}", progress) as report:
        folder = run("link", predictor, asked, chosen, out or tempfile.mkdtemp(prefix="fathom-"), report)
    return Result(folder, chosen.cluster).keep_metrics()
