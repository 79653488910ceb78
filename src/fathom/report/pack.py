"""The evidence as the report's script reads it: a JSON header behind its length, then columns of numbers, compressed."""

from __future__ import annotations

import base64
import gzip
import html
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fathom.report.charts import hits_of
from fathom.report.evidence import ANSWERS, Dimension, Evidence, Predictions, weights
from fathom.report.slices import Slice
from fathom.results.rows import Floats

Array = npt.NDArray[Any]
UNSURE = 65535
"""In the column of confidences: it cannot be told. The script has the same number."""
_WIDTHS = {False: ("u1", "u2", "u4"), True: ("i1", "i2", "i4")}


def packed(text: str) -> str:
    """Compressed, for a text element of a page."""
    return _for_page(text.encode("utf-8", "replace"))


def packed_evidence(
    evidence: Evidence,
    found: Predictions,
    dims: Mapping[str, Dimension],
    drawings: Sequence[Mapping[str, Any]],
    cut: Sequence[Slice],
) -> str:
    """All that the script shows and counts."""
    columns = _columns(evidence, found, dims)
    header = {
        "columns": [{"name": name, "kind": own.dtype.str[1:], "length": len(own)} for name, own in columns.items()],
        "count": len(found.fact),
        "best": ANSWERS,
        "untold": int(_untold(columns["value"])),
        "views": [_about(view.name, view.probe, view.scoring) for view in evidence.views],
        "texts": [_unicode(text) for text in evidence.pool.texts],
        "facts": [_unicode(fact) for fact in evidence.facts],
        "gold": evidence.gold,
        "groups": {key: [own.get(key, 0) for own in evidence.groups] for key in evidence.keys},
        "labels": {name: [_unicode(label) for label in own.labels] for name, own in dims.items()},
        "drawings": list(drawings),
        "slices": _slices([view.name for view in evidence.views], cut),
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
    text += b" " * (-len(text) % 4)
    return _for_page(struct.pack("<I", len(text)) + text + b"".join(own.tobytes() for own in columns.values()))


def _for_page(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")


def _unicode(text: str) -> str:
    """Halves of characters, which files may spell, cannot be written."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _about(name: str, probe: str, scoring: str) -> dict[str, str]:
    """:returns: with ``heading``, of a column: the table component takes it for HTML."""
    return {"name": name, "heading": f"<bdi>{html.escape(name)}</bdi>", "probe": probe, "scoring": scoring}


def _columns(evidence: Evidence, found: Predictions, dims: Mapping[str, Dimension]) -> dict[str, Array]:
    """Of facts: relation, subject; of views × facts: hits, meanRanks; of predictions: the others."""
    relations = {label: place for place, label in enumerate(dims["relation"].labels)}
    texts, size = evidence.pool.texts, (len(evidence.views), len(evidence.facts))
    sure = np.where(np.isnan(found.confidence), UNSURE, np.round(found.confidence * (UNSURE - 1)))
    ranks = np.where(found.rank < 0, np.inf, found.rank)
    return {
        "relation": _narrow(np.array([relations[texts[own]] for own in evidence.relation])),
        "subject": _narrow(np.array(evidence.subject)),
        "hits": hits_of(found, *size).ravel().astype("<f4"),
        "meanRanks": _means(found, ranks, size).astype("<f4"),
        "view": _narrow(found.view),
        "fact": _narrow(found.fact),
        "weight": weights(found).astype("<f4"),
        "right": found.hit.astype("<f4"),
        "rank": found.rank.astype("<f4"),
        "confidence": sure.astype("<u2"),
        "pattern": _narrow(found.prompt),
        "reason": _narrow(found.reason),
        # Best answers of all predictions, then second best ones: what is alike stands together.
        "answer": _narrow(found.answers.T.ravel()),
        "value": _thousandths(found.values.T.ravel()),
        "templates": _narrow(dims["template"].codes),
        "ranks": _narrow(dims["rank"].codes),
        "confidences": _narrow(dims["confidence"].codes),
        "lengths": _narrow(dims["length"].codes),
    }


def _means(found: Predictions, values: Floats, size: tuple[int, int]) -> Floats:
    """Of each fact in each view, NaN where it does not count, [views × facts]."""
    weight, place = weights(found), found.view * size[1] + found.fact
    told = weight > 0
    sums = np.full(size[0] * size[1], np.nan)
    sums[place[told]] = 0
    np.add.at(sums, place[told], weight[told] * values[told])
    return sums


def _narrow(numbers: npt.NDArray[np.int64]) -> Array:
    """In as few bytes as hold them."""
    signed = bool(numbers.min(initial=0) < 0)
    most = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)) - 1)
    kind = next(kind for kind in _WIDTHS[signed] if most <= np.iinfo(kind).max)
    return numbers.astype(f"<{kind}")


def _thousandths(values: Floats) -> Array:
    """In the least width that holds them; the least number of that width where there is none."""
    told = ~np.isnan(values) & ~np.isinf(values)
    numbers = np.zeros(len(values), dtype=np.int64)
    numbers[told] = np.clip(np.round(values[told] * 1000), -(2**31) + 2, 2**31 - 2).astype(np.int64)
    spread = np.append(numbers, [numbers.max(initial=0) + 1, min(numbers.min(initial=0) - 1, -1)])
    narrow = _narrow(spread)[:-2]
    narrow[~told] = _untold(narrow)
    return narrow


def _untold(column: Array) -> Any:
    return np.iinfo(column.dtype).min


def _slices(names: Sequence[str], cut: Sequence[Slice]) -> dict[str, list[dict[str, Any]]]:
    """Of each pair of views "0-1", and of the same turned round, as the table shows them."""
    place = {name: number for number, name in enumerate(names)}
    found: dict[str, list[dict[str, Any]]] = {}
    for own in cut:
        one, other = place[own.first], place[own.second]
        about = {"key": own.key, "value": _unicode(own.value)}
        found.setdefault(f"{one}-{other}", []).append(about | {"told": _told(own, 1)})
        found.setdefault(f"{other}-{one}", []).append(about | {"told": _told(own, -1)})
    return found


def _told(own: Slice, sign: int) -> list[str]:
    means, number = (own.of_first, own.of_second)[::sign], own.number
    ends = [end for end in (number.low, number.high) if end is not None][::sign]
    between = " to ".join(f"{100 * sign * end:+.1f}" for end in ends) or "–"
    p = "–" if own.adjusted is None else "< 0.001" if own.adjusted < 0.001 else f"{own.adjusted:.3f}"
    shares = [f"{mean:.1%}" for mean in means]
    return [str(own.facts), *shares, f"{100 * sign * number.value:+.1f}", between, p]
