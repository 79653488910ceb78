"""KGT5 (Saxena et al. 2022): "predict tail: head | relation |", and the tail's name comes out.

As in the paper: one T5 for both directions, asked by two prompts. As in KGT5-context (Kochsiek et al. 2023) and in
LambdaKG, the description of the entity that is given may be read, too; it stands last, so that it alone is cut where a
question is too long. Unlike the paper, which samples 500 names and ranks those that are entities, decoding is
restricted to entities and searched exactly.
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
        """ "predict tail: head | relation | description of the head", and likewise for heads."""
        texts = self.texts
        return [
            f"predict {'head' if asks_head else 'tail'}: {texts.names[entity]} | {texts.relations[link]} | "
            f"{texts.descriptions[entity]}".rstrip()
            for entity, link, asks_head in zip(given.tolist(), relation.tolist(), inverse, strict=True)
        ]
