"""The evidence as the report's script reads it: a JSON header behind its length, then columns of numbers."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from fathom.report.charts import places_of
from fathom.report.counting import Dimension, Kinds, weights, weights_alone
from fathom.report.evidence import ANSWERS, UNTOLD, Array, Evidence, Predictions, narrow, showable
from fathom.report.slices import Slice
from fathom.results.estimates import Estimate
from fathom.results.rows import Floats

UNSURE = 65535
"""In the column of confidences: it cannot be told. The script has the same number."""
_KINDS = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "f4": "Float32Array"}
_KINDS |= {"i1": "Int8Array", "i2": "Int16Array", "i4": "Int32Array"}
"""The script's names of columns of each kind."""
MOST = 3_000_000
"""Facts × runs × templates of which a page holds hits and ranks."""


class OfPairs(NamedTuple):
    """Of pairs of views, such as "0-1".

    :param refused: why they are not compared.
    :param told: the difference over all facts, in words.
    """

    refused: Mapping[str, str]
    told: Mapping[str, str]


def packed(text: str) -> str:
    """Compressed, for a text element of a page."""
    return "".join(_for_page([text.encode("utf-8")]))


def packed_evidence(
    evidence: Evidence,
    found: Predictions,
    dims: Mapping[str, Dimension],
    kinds: Kinds,
    drawings: Sequence[Mapping[str, Any]],
    cut: Sequence[Slice],
    of_pairs: OfPairs,
) -> Iterator[str]:
    """All that the script shows and counts, in pieces. :param drawings: with their specifications and classes."""
    columns = _columns(evidence, found, dims)
    columns |= {f"of {own['name']}": partial(places_of, own["keys"], dims, found) for own in drawings if own["classes"]}
    shapes = {name: _kind_and_length(make()) for name, make in columns.items()}
    header = {
        "columns": [
            {"name": name, "kind": _KINDS[kind.str[1:]], "length": length} for name, (kind, length) in shapes.items()
        ],
        "count": len(found.fact),
        "best": ANSWERS,
        "untold": int(np.iinfo(shapes["value"][0]).min),
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
    return _for_page(chain([struct.pack("<I", len(text)), text], (make().tobytes() for make in columns.values())))


def _for_page(contents: Iterable[bytes]) -> Iterator[str]:
    """One after the other, compressed by gzip, in base64."""
    waiting = b""
    for own in _compressed(contents):
        waiting += own
        whole = len(waiting) - len(waiting) % 3  # of which base64 makes whole characters
        yield base64.b64encode(waiting[:whole]).decode("ascii")
        waiting = waiting[whole:]
    yield base64.b64encode(waiting).decode("ascii")


def _compressed(contents: Iterable[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(9, wbits=31)
    yield from map(compressor.compress, contents)
    yield compressor.flush()


def _kind_and_length(column: Array) -> tuple[np.dtype[Any], int]:
    return column.dtype, len(column)


def _columns(evidence: Evidence, found: Predictions, dims: Mapping[str, Dimension]) -> dict[str, Callable[[], Array]]:
    """Of facts: relation, subject; of templates together, and of each, × views × facts: hits, meanRanks, first; of
    predictions: the others. Each is made when it is asked for: together they are larger than what they are made of."""
    relations = {label: place for place, label in enumerate(dims["relation"].labels)}
    texts, size = evidence.pool.texts, (len(evidence.views), len(evidence.facts))
    return {
        "relation": lambda: narrow(np.array([relations[texts[own]] for own in evidence.relation])),
        "subject": lambda: narrow(np.array(evidence.subject)),
        "hits": lambda: _by_template(found, lambda own: own.hit, size),
        "meanRanks": lambda: _by_template(found, lambda own: np.where(own.rank < 0, np.inf, own.rank), size),
        "view": lambda: narrow(found.view),
        "fact": lambda: narrow(found.fact),
        "weight": lambda: np.concatenate([weights(own).astype("<f4") for own in found.each_view()]),
        "alone": lambda: np.concatenate([weights_alone(own).astype("<f4") for own in found.each_view()]),
        "right": lambda: found.hit.astype("<f4"),
        "rank": lambda: found.rank.astype("<f4"),
        "confidence": lambda: np.concatenate([_sure(own.confidence) for own in found.each_view()]),
        "pattern": lambda: narrow(found.prompt),
        "reason": lambda: narrow(found.reason),
        # Best answers of all predictions, then second best ones: what is alike stands together.
        "answer": lambda: narrow(found.answers.T.ravel()),
        "golden": lambda: narrow(found.right),
        "value": lambda: _with_least_untold(found.values.T.ravel()),
        "template": lambda: narrow(dims["template"].codes),
        **{f"{name}Class": partial(narrow, dims[name].codes) for name in ("rank", "confidence", "score", "length")},
        "first": lambda: narrow(_first_answers(found, size)),
    }


def templates_of(found: Predictions, size: tuple[int, int]) -> list[int]:
    """Those that may be chosen; none where facts × runs × templates would make a page too large."""
    templates = np.unique(found.template).tolist()
    return templates if len(templates) * size[0] * size[1] <= MOST else []


def _first_answers(found: Predictions, size: tuple[int, int]) -> Array:
    """Of each fact in each view the best answer by its first template, then by each template; why there is none where
    it is unscored."""
    templates = templates_of(found, size)
    answers = np.zeros((1 + len(templates), *size), dtype=np.uint32)
    for own in found.each_view():
        told = np.where(own.answers[:, 0] > 0, own.answers[:, 0], own.reason)
        every = np.ones(len(told), dtype=bool)
        for part, asked in enumerate((every, *(own.template == template for template in templates))):
            answers[part, own.view[0], own.fact[asked][::-1]] = told[asked][::-1]
    return answers.ravel()


def _by_template(found: Predictions, of: Callable[[Predictions], Floats], size: tuple[int, int]) -> Array:
    """Means of each fact in each view, over all templates and by each, NaN where it does not count."""
    templates = templates_of(found, size)
    means = np.full((1 + len(templates), *size), np.nan, dtype="<f4")
    for own in found.each_view():
        values, alone = of(own), weights_alone(own)
        each = (weights(own), *(alone * (own.template == template) for template in templates))
        for part, weight in enumerate(each):
            told = weight > 0
            sums = np.full(size[1], np.nan)
            sums[own.fact[told]] = 0
            np.add.at(sums, own.fact[told], weight[told] * values[told])
            means[part, own.view[0]] = sums
    return means.ravel()


def _sure(confidence: Array) -> Array:
    told = ~np.isnan(confidence)
    return np.where(told, np.round(np.where(told, confidence, 0) * np.float64(UNSURE - 1)), UNSURE).astype("<u2")


def _with_least_untold(thousandths: Array) -> Array:
    """In the least width that holds them and a number below them all, which stands where there is none."""
    told = thousandths != UNTOLD
    most, least = int(thousandths.max(where=told, initial=0)), int(thousandths.min(where=told, initial=0))
    kind = narrow(np.array([most + 1, min(least - 1, -1)])).dtype
    return np.where(told, thousandths, np.iinfo(kind).min).astype(kind)


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


def points(number: Estimate, sign: int) -> tuple[str, str]:
    """A difference and its interval in points. :param sign: −1 for the other way round."""
    ends = [end for end in (number.low, number.high) if end is not None][::sign]
    return f"{100 * sign * number.value:+.1f}", " to ".join(f"{100 * sign * end:+.1f}" for end in ends) or "–"


def p_value(p: float | None) -> str:
    """In words."""
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _told(own: Slice, sign: int) -> list[str]:
    shares = [f"{mean:.1%}" for mean in (own.of_first, own.of_second)[::sign]]
    return [str(own.facts), *shares, *points(own.number, sign), p_value(own.adjusted)]
