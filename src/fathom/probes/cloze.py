"""The cloze probe (entity ranking; Kassner et al. 2021, Shaier et al. 2024): which entity fills the slot best?

Masked models and encoder-decoders. The sentence is a relation's template with the subject in it, or a natural sentence
of the query's own; a candidate's score is the mean (or maximum, or first) of its tokens' log-probabilities at the masks
of the slot (or, where an encoder-decoder says them one after the other, in it). Causal models rank the same candidates
in the same sentences by the statement probe. See docs/methods/cloze.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fathom.models.base import Attention, Model
from fathom.probes.slot import TOP, AskedSlot, SlotProbe
from fathom.scoring.screening import settle
from fathom.scoring.slots import Names, slot_scores


class Probe(SlotProbe):
    """See :class:`fathom.probes.slot.SlotProbe`. Encoder-decoders fill the slot, too."""

    @classmethod
    def _can_ask(cls, model: Model) -> bool:
        return model.attention is Attention.SEQ2SEQ or super()._can_ask(model)

    def _scored(self, asked: Sequence[AskedSlot], names: Names) -> NDArray[np.float32]:
        """Where there is a rough copy of the model, by it first, and by the model itself what could change a place."""
        rough = self.rough
        if rough is None or not asked:
            return super()._scored(asked, names)
        slots = [item.slot for item in asked]
        gold = [self.queryset.candidates[item.query.candidates].places(item.query.gold) for item in asked]

        def scores(model: Model, only: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
            return slot_scores(model, slots, names, self.ways, self.budget, only=only)

        self._passes += len(set(slots)) * len(names.masks(self.ways))
        ranked = [[place for place in places if names.lengths[place]] for places in gold]
        settled = settle(scores(rough), ranked, TOP, lambda chosen: scores(self.model, chosen), sample=0)
        self.screened.update(
            screened=len(asked) * int((names.lengths > 0).sum()),
            scored_again=int(settled.again[:, names.lengths > 0].sum()),
        )
        return settled.scores
