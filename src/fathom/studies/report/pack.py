"""The evidence as the report's script reads it: the length of a JSON header, the header, then columns of numbers."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from fathom.results.estimates import Estimate
from fathom.results.samples import RELATION
from fathom.studies.report.charts import places_of
from fathom.studies.report.evidence import (
    ANSWERS,
    MISSING,
    Array,
    Dimension,
    Evidence,
    KeptTokens,
    Kinds,
    PredictionColumns,
    label_of,
    narrow,
    showable,
    weights,
    weights_by_template,
)
from fathom.studies.report.overview import Slice

UNSURE = 65535
"""In the column of confidences: unknown. The script has the same number."""
_KINDS = {"u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array", "f4": "Float32Array"}
_KINDS |= {"i1": "Int8Array", "i2": "Int16Array", "i4": "Int32Array"}


def packed(text: str) -> str:
    """Compress a text for a text element of a page."""
    return "".join(_for_page([text.encode("utf-8")]))


def packed_evidence(
    evidence: Evidence,
    predictions: PredictionColumns,
    dims: Mapping[str, Dimension],
    kinds: Kinds,
    drawings: Sequence[Mapping[str, Any]],
    cut: Sequence[Slice],
    refused: Mapping[str, str],
    verdicts: Mapping[str, str],
) -> Iterator[str]:
    """Yield all that the script shows and counts, in pieces.

    :param drawings: with specifications and classes.
    :param refused: why pairs of views are not compared, by keys such as "0-1"; *verdicts* of the others.
    """
    columns = _columns(evidence, predictions, dims) | _token_columns(evidence.tokens)
    for drawing in drawings:
        if drawing["classes"]:
            columns[f"of {drawing['name']}"] = partial(places_of, drawing["keys"], dims, predictions)
    shapes = {}
    for name, make in columns.items():
        column = make()
        shapes[name] = column.dtype, len(column)
    header = {
        "columns": [
            {"name": name, "kind": _KINDS[kind.str[1:]], "length": length} for name, (kind, length) in shapes.items()
        ],
        "count": len(predictions.fact),
        "best": ANSWERS,
        "missing": int(np.iinfo(shapes["value"][0]).min),
        "views": [{key: getattr(view, key) for key in ("name", "probe", "scoring")} for view in evidence.views],
        "texts": list(evidence.pool),
        "facts": list(map(showable, evidence.facts)),
        "gold": evidence.gold,
        "slicesOf": kinds.of_facts,
        "labels": {name: list(own.labels) for name, own in dims.items()} | {"slice": kinds.labels},
        "drawings": list(drawings),
        "slices": _slices([view.name for view in evidence.views], cut),
        "refused": refused,
        "ofPair": verdicts,
    }
    text = json.dumps(header, ensure_ascii=False, allow_nan=False).encode("utf-8")
    text += b" " * (-len(text) % 4)
    return _for_page(chain([struct.pack("<I", len(text)), text], (make().tobytes() for make in columns.values())))


def _for_page(contents: Iterable[bytes]) -> Iterator[str]:
    """Compress with gzip, and encode as base64."""
    compressor, waiting = zlib.compressobj(9, wbits=31), b""
    for content in contents:
        waiting += compressor.compress(content)
        whole = len(waiting) - len(waiting) % 3  # of which base64 makes whole characters
        yield base64.b64encode(waiting[:whole]).decode("ascii")
        waiting = waiting[whole:]
    yield base64.b64encode(waiting + compressor.flush()).decode("ascii")


def _columns(
    evidence: Evidence, predictions: PredictionColumns, dims: Mapping[str, Dimension]
) -> dict[str, Callable[[], Array]]:
    """Return functions that make the columns: together these are larger than what they are made of.

    Columns of facts: relation, subject. Of predictions: the others.
    """
    relations = {label: place for place, label in enumerate(dims["relation"].labels)}
    texts = list(evidence.pool)

    def by_view(values: Callable[[PredictionColumns], Array]) -> Array:
        return np.concatenate([values(view) for view in predictions.each_view()])

    return {
        "relation": lambda: narrow(np.array([relations[texts[own]] for own in evidence.relation])),
        "subject": lambda: narrow(np.array(evidence.subject)),
        "view": lambda: narrow(predictions.view),
        "fact": lambda: narrow(predictions.fact),
        "weight": lambda: by_view(lambda view: weights(view).astype("<f4")),
        "alone": lambda: by_view(lambda view: weights_by_template(view).astype("<f4")),
        "right": lambda: predictions.hit.astype("<f4"),
        "rank": lambda: predictions.rank.astype("<f4"),
        "ties": lambda: narrow(predictions.ties),
        "confidence": lambda: by_view(lambda view: _sure(view.confidence)),
        "pattern": lambda: narrow(predictions.prompt),
        "reason": lambda: narrow(predictions.reason),
        # Best answers of all predictions, then second best ones: equal values next to each other compress well.
        "answer": lambda: narrow(predictions.answers.T.ravel()),
        "golden": lambda: narrow(predictions.right),
        "value": lambda: _with_least_missing(predictions.values.T.ravel()),
        "template": lambda: narrow(dims["template"].codes),
        **{f"{name}Class": partial(narrow, dims[name].codes) for name in ("rank", "confidence", "score", "length")},
    }


def _token_columns(tokens: KeptTokens) -> dict[str, Callable[[], Array]]:
    """Return functions that make the columns of tokens; none if no run kept any."""
    if not len(tokens.texts):
        return {}
    return {
        "tokenCount": lambda: narrow(tokens.counts.ravel()),
        "tokenText": lambda: narrow(tokens.texts),
        "tokenValue": lambda: narrow(tokens.values),
    }


def _sure(confidence: Array) -> Array:
    known = ~np.isnan(confidence)
    return np.where(known, np.round(np.where(known, confidence, 0) * np.float64(UNSURE - 1)), UNSURE).astype("<u2")


def _with_least_missing(thousandths: Array) -> Array:
    """Return them in the least width that also holds a smaller number, which replaces :data:`MISSING`."""
    known = thousandths != MISSING
    most, least = int(thousandths.max(where=known, initial=0)), int(thousandths.min(where=known, initial=0))
    kind = narrow(np.array([most + 1, min(least - 1, -1)])).dtype
    return np.where(known, thousandths, np.iinfo(kind).min).astype(kind)


def _slices(names: Sequence[str], cut: Sequence[Slice]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each pair of views "0-1", and of the reversed pair, as the table shows them."""
    place = {name: number for number, name in enumerate(names)}
    rows: dict[str, list[dict[str, Any]]] = {}
    for own in cut:
        key, value = showable(own.key), showable(own.value)
        label = label_of(key, value)
        chosen = ("relation", value) if own.key == RELATION else ("slice", label)
        about = {"label": label, "choice": chosen[0], "value": chosen[1]}
        for sign in (1, -1):
            one, other = (place[own.first], place[own.second])[::sign]
            rows.setdefault(f"{one}-{other}", []).append(about | {"cells": _cells(own, sign)})
    return rows


def _points(number: Estimate, sign: int) -> tuple[str, str]:
    """Return a difference and its interval in points. :param sign: −1 for the reversed pair."""
    ends = [end for end in (number.low, number.high) if end is not None][::sign]
    return f"{100 * sign * number.value:+.1f}", " to ".join(f"{100 * sign * end:+.1f}" for end in ends) or "–"


def _cells(own: Slice, sign: int) -> list[str]:
    shares = [f"{mean:.1%}" for mean in (own.of_first, own.of_second)[::sign]]
    p = "–" if own.adjusted is None else "< 0.001" if own.adjusted < 0.001 else f"{own.adjusted:.3f}"
    return [str(own.facts), *shares, *_points(own.number, sign), p]
