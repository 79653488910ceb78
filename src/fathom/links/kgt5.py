"""KGT5 (Saxena et al. 2022): "predict tail: head | relation |", and the tail's name comes out.

As in the paper, one T5 serves both directions. As in KGT5-context (Kochsiek et al. 2023) and in LambdaKG, the given
entity's description may be read; it comes last, so that a long query loses its end. The paper samples 500 names and
ranks those that are entities; here decoding is restricted to entities and searched exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from fathom.data.knowledge import Places
from fathom.links.generative import GenerativePredictor
from fathom.links.options import Kgt5
from fathom.training.loop import ADAMW, Optimizer, adafactor


class Predictor(GenerativePredictor):
    """See :class:`fathom.links.generative.GenerativePredictor`."""

    options: Kgt5

    def _optimizer(self) -> Optimizer:
        return adafactor if self.options.optimizer == "adafactor" else ADAMW

    def questions(self, given: Places, relation: Places, inverse: Sequence[bool]) -> list[str]:
        """Return "predict tail: head | relation | description of the head", and likewise for heads."""
        texts = self.texts
        return [
            f"predict {'head' if asks_head else 'tail'}: {texts.names[entity]} | {texts.relations[link]} | "
            f"{texts.descriptions[entity]}".rstrip()
            for entity, link, asks_head in zip(given.tolist(), relation.tolist(), inverse, strict=True)
        ]
