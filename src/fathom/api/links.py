"""Training and evaluation of link predictors in Python."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from fathom.api.result import Out, Result, Source, read_source
from fathom.data.graph.queries import link_queryset
from fathom.errors import all_of
from fathom.links.options import LinkOptions, LinkTraining
from fathom.options import chosen_options, parse_options
from fathom.probes.shared_options import HERE
from fathom.progress import ProgressSetting, shown
from fathom.run import run


def train_links(
    model: str | LinkTraining, data: Source, out: str | Path, progress: ProgressSetting = None, **options: Any
) -> dict[str, Any]:
    """Train a link predictor of a knowledge graph into the folder *out*, or resume its training.

    :param model: options of a kind, such as ``SimKgc(weights="bert-base-cased")``; or its name, with options as
        keywords: "simkgc", "knn-kge", "kg-bert", "kgt5", "genkgc", "prompted", "ultra", or a model of PyKEEN.
    :param options: see ``fathom kgc train --model KIND --help-all``; ``preset="sakai2024"`` for those of a paper.
    :returns: the content of its ``link.json``: ``ended`` says why and where.
    :raises BadInput: everything that is wrong with options and data, at once.
    :raises RunFailed: NaN, a full disk.
    """
    from fathom.links import find as find_kind
    from fathom.links import folder, name_of

    name = name_of(model) if isinstance(model, LinkTraining) else model
    chosen, queryset = all_of(
        lambda: chosen_options(model, options, lambda given: find_kind(name).parse(name, given)),
        lambda: read_source(data),
    )
    with shown(f"training {name}", progress) as report:
        return folder.train_links(name, queryset, chosen, out, report)


def evaluate_links(
    model: str | Path,
    data: Source,
    out: Out = None,
    progress: ProgressSetting = None,
    asking: dict[str, Any] | None = None,
    **options: Any,
) -> Result:
    """Evaluate a trained link predictor: rank heads and tails of a graph's triples among all entities, filtered.

    :param model: a folder that :func:`train_links` made.
    :param data: its graph, or a world made of it.
    :param asking: options of its kind that replace those of its training.
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
