"""Recipes: how a number was computed, in one line. Two numbers may only be compared if their recipes agree."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fathom.results.rows import Rows, grouped

MINUS = " − "
_PART = re.compile(r"\|(?=[a-z][a-z_ ]*:)")
"""Where a part of a recipe begins: values may have the sign as well, such as "<|endoftext|>"."""


def recipe(rows: Rows, metric: str, scoring: str, templates: Iterable[int] | None = None) -> str:
    """Return the recipe of a metric of one run.

    The data's hash is of the whole data set; the selection follows. The model's hash is of its weights, configuration
    and tokenizer.

    :param templates: by default all of the scoring.
    """
    if templates is None:
        templates = sorted(set(rows.template[rows.of(scoring)].tolist()))
    data, model = rows.identity.get("data", {}), rows.identity.get("model", {})
    resolved = rows.identity.get("resolved", {})
    parts = {
        "data": f"{data.get('name')}@{data.get('content_hash')}",
        **({"candidates": data["pool"]} if "pool" in data else {}),
        "probe": rows.identity.get("probe"),
        "scoring": scoring,
        "templates": ",".join(map(str, templates)),
        "ties": "expected",
        **({"first token": f"{resolved['bos_token']} (EOS, as there is no BOS)"} if resolved.get("bos_is_eos") else {}),
        "model": f"{model.get('name')}@{model.get('content_hash')}",
        "dtype": model.get("dtype"),
        "fathom": rows.identity.get("version"),
        **rows.declared.options,
    }
    return "|".join([metric, *(f"{name}:{value}" for name, value in parts.items())])


def combined(name: str, recipes: Iterable[str], sign: str = MINUS, most: int = 4) -> str:
    """Return the recipe of a number made of several: what they share once, what differs side by side.

    :param name: of the number, in place of the metrics' names.
    :param sign: between values that differ; "−" keeps their order.
    :param most: largest number of different values to list; of more only their number.
    """
    parts = (part.partition(":") for line in dict.fromkeys(recipes) for part in _PART.split(line)[1:])
    lines = []
    for key, values in grouped((key, value) for key, _, value in parts).items():
        different = list(dict.fromkeys(values)) if sign == MINUS else sorted(set(values))
        several = sign.join(different) if len(different) <= most else f"{len(different)} different"
        lines.append(f"{key}:{several}")
    return "|".join([name, *lines])


def without_sample(recipe: str) -> str:
    """Remove the sampling unit of the numbers that a number was made of."""
    return "|".join(part for part in _PART.split(recipe) if not part.startswith("cluster:"))
