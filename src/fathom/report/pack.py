"""The evidence as the report's script reads it: a JSON header behind its length, then columns of numbers."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fathom.report.charts import places_of
from fathom.report.evidence import ANSWERS, Dimension, Evidence, Kinds, Predictions, showable, weights, weights_alone
from fathom.report.slices import Slice
from fathom.results.numbers import Number
from fathom.results.rows import Floats

Array = npt.NDArray[Any]
UNSURE = 65535
"""In the column of confidences: it cannot be told. The script has the same number."""
_KINDS = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "f4": "Float32Array"}
_KINDS |= {"i1": "Int8Array", "i2": "Int16Array", "i4": "Int32Array"}
"""The script's names of columns of each kind."""
MOST = 3_000_000
"""Facts × runs × templates of which a page holds hits and ranks."""
_WIDTHS = {False: ("u1", "u2", "u4"), True: ("i1", "i2", "i4")}


class OfPairs(NamedTuple):
    """Of pairs of views, such as "0-1".

    :param refused: why they are not compared.
    :param told: the difference over all facts, in words.
    """

    refused: Mapping[str, str]
    told: Mapping[str, str]


def packed(text: str) -> str:
    """Compressed, for a text element of a page."""
    return _for_page(text.encode("utf-8"))


def packed_evidence(
    evidence: Evidence,
    found: Predictions,
    dims: Mapping[str, Dimension],
    kinds: Kinds,
    drawings: Sequence[Mapping[str, Any]],
    cut: Sequence[Slice],
    of_pairs: OfPairs,
) -> str:
    """All that the script shows and counts. :param drawings: with their specifications and classes."""
    columns = _columns(evidence, found, dims)
    columns |= {f"of {own['name']}": _narrow(places_of(own["keys"], dims, found)) for own in drawings if own["classes"]}
    header = {
        "columns": [
            {"name": name, "kind": _KINDS[own.dtype.str[1:]], "length": len(own)} for name, own in columns.items()
        ],
        "count": len(found.fact),
        "best": ANSWERS,
        "untold": int(_untold(columns["value"])),
        "views": [{key: getattr(view, key) for key in ("name", "probe", "scoring")} for view in evidence.views],
        "texts": evidence.pool.texts,
        "facts": list(map(showable, evidence.facts)),
        "gold": evidence.gold,
        "slicesOf": kinds.of_facts,
        "labels": {name: list(own.labels) for name, own in dims.items()} | {"slice": kinds.labels},
        "drawings": list(drawings),
        "slices": _slices([view.name for view in evidence.views], cut),
        "refused": of_pairs.refused,
        "ofPair": of_pairs.told,
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8")
    text += b" " * (-len(text) % 4)
    return _for_page(struct.pack("<I", len(text)) + text + b"".join(own.tobytes() for own in columns.values()))


def _for_page(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, mtime=0)).decode("ascii")


def _columns(evidence: Evidence, found: Predictions, dims: Mapping[str, Dimension]) -> dict[str, Array]:
    """Of facts: relation, subject; of templates together, and of each, × views × facts: hits, meanRanks, first; of
    predictions: the others."""
    relations = {label: place for place, label in enumerate(dims["relation"].labels)}
    texts, size = evidence.pool.texts, (len(evidence.views), len(evidence.facts))
    sure = np.where(np.isnan(found.confidence), UNSURE, np.round(found.confidence * (UNSURE - 1)))
    ranks = np.where(found.rank < 0, np.inf, found.rank)
    return {
        "relation": _narrow(np.array([relations[texts[own]] for own in evidence.relation])),
        "subject": _narrow(np.array(evidence.subject)),
        "hits": _by_template(found, found.hit, size),
        "meanRanks": _by_template(found, ranks, size),
        "view": _narrow(found.view),
        "fact": _narrow(found.fact),
        "weight": weights(found).astype("<f4"),
        "alone": weights_alone(found).astype("<f4"),
        "right": found.hit.astype("<f4"),
        "rank": found.rank.astype("<f4"),
        "confidence": sure.astype("<u2"),
        "pattern": _narrow(found.prompt),
        "reason": _narrow(found.reason),
        # Best answers of all predictions, then second best ones: what is alike stands together.
        "answer": _narrow(found.answers.T.ravel()),
        "golden": _narrow(found.right),
        "value": _thousandths(found.values.T.ravel()),
        "template": _narrow(dims["template"].codes),
        **{f"{name}Class": _narrow(dims[name].codes) for name in ("rank", "confidence", "score", "length")},
        "first": _narrow(_first_answers(found, size)),
    }


def templates_of(found: Predictions, size: tuple[int, int]) -> list[int]:
    """Those that may be chosen; none where facts × runs × templates would make a page too large."""
    templates = np.unique(found.template).tolist()
    return templates if len(templates) * size[0] * size[1] <= MOST else []


def _first_answers(found: Predictions, size: tuple[int, int]) -> npt.NDArray[np.int64]:
    """Of each fact in each view the best answer by its first template, then by each template; why there is none where
    it is unscored."""
    told = np.where(found.answers[:, 0] > 0, found.answers[:, 0], found.reason)
    place, every = found.view * size[1] + found.fact, np.ones(len(told), dtype=bool)
    parts = []
    for asked in (every, *(found.template == template for template in templates_of(found, size))):
        answers = np.zeros(size[0] * size[1], dtype=np.int64)
        answers[place[asked][::-1]] = told[asked][::-1]
        parts.append(answers)
    return np.concatenate(parts)


def _by_template(found: Predictions, values: Floats, size: tuple[int, int]) -> Array:
    """Means of each fact in each view, over all templates and by each, NaN where it does not count."""
    place, alone = found.view * size[1] + found.fact, weights_alone(found)
    each = (alone * (found.template == template) for template in templates_of(found, size))
    parts = []
    for weight in (weights(found), *each):
        told = weight > 0
        sums = np.full(size[0] * size[1], np.nan)
        sums[place[told]] = 0
        np.add.at(sums, place[told], weight[told] * values[told])
        parts.append(sums)
    return np.concatenate(parts).astype("<f4")


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
        key, value = showable(own.key), showable(own.value)
        about = {"key": key, "value": value, "label": f"{key}: {value}"}
        found.setdefault(f"{one}-{other}", []).append(about | {"told": _told(own, 1)})
        found.setdefault(f"{other}-{one}", []).append(about | {"told": _told(own, -1)})
    return found


def points(number: Number, sign: int) -> tuple[str, str]:
    """A difference and its interval in points. :param sign: −1 for the other way round."""
    ends = [end for end in (number.low, number.high) if end is not None][::sign]
    return f"{100 * sign * number.value:+.1f}", " to ".join(f"{100 * sign * end:+.1f}" for end in ends) or "–"


def p_value(p: float | None) -> str:
    """In words."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _told(own: Slice, sign: int) -> list[str]:
    shares = [f"{mean:.1%}" for mean in (own.of_first, own.of_second)[::sign]]
    return [str(own.facts), *shares, *points(own.number, sign), p_value(own.adjusted)]
