"""Link predictors in Python: ``fathom_kgc.train_links("simkgc", "my-graph", "models/simkgc")``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fathom.api.result import Out, Result, Source, read_source
from fathom.base.errors import BadInput, all_of
from fathom.base.options import chosen_options, parse_options
from fathom.base.progress import ProgressSetting, shown
from fathom.data.graph.queries import link_queryset
from fathom.probes.options import HERE
from fathom.probes.run import RunRequest, run
from fathom_kgc.entries import LINK_PROBE
from fathom_kgc.links.options import LinkOptions, LinkTraining

if TYPE_CHECKING:
    from fathom.probes.run.forecast import Forecast


def train_links(
    model: str | LinkTraining, data: Source, out: str | Path, progress: ProgressSetting = None, **options: object
) -> dict[str, Any]:
    """Train a link predictor of a knowledge graph into the folder *out*, or resume its training.

    :param model: options of a kind, such as ``SimKgc(weights="bert-base-cased")``; or its name, with options as
        keywords: "simkgc", "knn-kge", "kg-bert", "kgt5", "genkgc", "prompted", "ultra", or a model of PyKEEN.
    :param options: see ``fathom kgc train KIND --help-all``; ``preset="sakai2024"`` for those of a paper.
    :returns: the content of its ``link.json``: ``ended`` says why and where.
    :raises BadInput: everything that is wrong with options and data, at once.
    :raises RunFailed: NaN, a full disk.
    """
    from fathom_kgc.links import base, find, name_of

    name = name_of(model) if isinstance(model, LinkTraining) else model
    training, queryset = all_of(
        lambda: chosen_options(model, options, lambda values: find(name).parse(name, values)), lambda: read_source(data)
    )
    with shown(f"training {name}", progress) as report:
        return base.train_links(name, queryset, training, out, report)


def evaluate_links(
    model: str | Path,
    data: Source,
    out: Out = None,
    progress: ProgressSetting = None,
    asking: dict[str, Any] | None = None,
    **options: object,
) -> Result:
    """Evaluate a trained link predictor: rank heads and tails of a graph's triples among all entities, filtered.

    :param model: a folder that :func:`train_links` made.
    :param data: its graph, or a world made of it.
    :param asking: options of its kind that replace those of its training.
    :param options: see :class:`fathom_kgc.links.options.LinkOptions`.
    :raises BadInput: everything that is wrong with model, options and data, at once.
    """
    request = _request(model, data, asking, options)
    with shown(f"asking {Path(model).name}", progress) as report:
        folder = run(request, out or tempfile.mkdtemp(prefix="fathom-"), report)
    return Result(folder, request.options.cluster).keep_metrics()


def forecast_links(
    model: str | Path, data: Source, asking: dict[str, Any] | None = None, **options: object
) -> Forecast:
    """Estimate the time and memory of :func:`evaluate_links` on this machine by a few queries.

    :raises BadInput: as :func:`evaluate_links`; or the queries would call a server.
    """
    request = _request(model, data, asking, options)
    if request.model.is_served:
        raise BadInput(f"--dry-run: {model} calls a server for each query, and no call is made")
    from fathom.probes.run.forecast import forecast_ranking

    return forecast_ranking(request)


def _request(model: str | Path, data: Source, asking: dict[str, Any] | None, options: Mapping[str, Any]) -> RunRequest:
    """Open a predictor and return what is asked of its evaluation. :raises BadInput: all that is wrong."""
    from fathom_kgc.links.base import open_links

    order = options.get("columns")
    evaluation, queryset = all_of(lambda: parse_options(LinkOptions, dict(options)), lambda: read_source(data, order))
    here = evaluation.device if evaluation.engine == HERE else "cpu"  # workers have their own
    predictor = open_links(model, queryset, here, asking)
    return RunRequest(LINK_PROBE, predictor, link_queryset(queryset, evaluation.directions), evaluation)
