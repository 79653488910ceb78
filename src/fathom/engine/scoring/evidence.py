"""Evidence that a run's scores are those of single sequences.

The first time that a path scores in a run, a few of its sequences run again, one at a time, through the model's own
layers under its own mask, with nothing shared, cached or padded. Self-checks (:mod:`fathom.engine.models.checks`) do
the same with made-up tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fathom.base.errors import RunFailed
from fathom.engine.models.base import Model, log_softmax
from fathom.engine.models.checks import PRECISION
from fathom.engine.models.quantisation import EIGHT_BITS, remedy
from fathom.store.folder import LARGEST_DIFFERENCE

TOKENS = 32
"""Most tokens compared at the end of a sequence."""
TOLERANCE, HALF, EIGHT = PRECISION, 0.25, 0.1
"""Nats per token by which scores may differ, in full and in half precision, and in eight bits of bitsandbytes.

Rounding in float32 changes about 1e-6. On SmolLM2-135M and Gemma-3-270m, bfloat16 changes at most 0.07, four bits 1e-5,
and eight bits 0.1 to 0.4: as much as they differ from float32.
"""
Floats = NDArray[np.floating]


class Evidence:
    """The largest difference between scores and those of single sequences, in nats per token."""

    def __init__(self) -> None:
        self.sequences = 0
        self.largest = 0.0
        self._paths: set[tuple[str, str]] = set()

    def begins(self, model: Model, path: str) -> bool:
        """Return whether *path* scores for the first time in this run."""
        key = path, model.identity.dtype
        is_new = key not in self._paths
        self._paths.add(key)
        return is_new

    def add(self, model: Model, path: str, scores: Floats, plain: Floats) -> None:
        """Compare the scores of a sequence's tokens, in nats. Those that are not finite are unscored, with a reason.

        :raises RunFailed: they differ by more than rounding does.
        """
        finite = np.isfinite(scores) & np.isfinite(plain)
        if not finite.any():
            return
        off = float(np.abs(scores[finite].astype(np.float64) - plain[finite]).mean())
        self.sequences += 1
        self.largest = max(self.largest, off)
        dtype = model.identity.dtype
        allowed = TOLERANCE if dtype == "float32" else EIGHT if EIGHT_BITS in dtype else HALF
        if off > allowed:
            advice = "report the model with the versions of torch and transformers, or try others"
            raise RunFailed(
                f"'{model.identity.name}': scores by {path} differ by {off:.1e} nats per token from those of single "
                f"sequences, more than {allowed}, so this run would be wrong: {remedy(dtype) or advice}"
            )

    def add_states(self, model: Model, path: str, states: Tensor, plain: Tensor) -> None:
        """Compare states, shape (m, d), by the log-probabilities of all tokens that the head makes of them."""
        log_probs = (log_softmax(model.logits(rows)).cpu().numpy() for rows in (states, plain))
        self.add(model, path, *log_probs)

    def circumstances(self) -> dict[str, int | float]:
        """Return how many sequences were compared, and the largest difference, for the manifest."""
        return {"compared_sequences": self.sequences, LARGEST_DIFFERENCE: self.largest} if self.sequences else {}


def some_of(lengths: Sequence[int]) -> list[int]:
    """Return the places of the longest sequence, the first one and one amid others."""
    return list(dict.fromkeys((int(np.argmax(lengths)), 0, len(lengths) // 2))) if len(lengths) else []
