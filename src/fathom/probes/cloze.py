"""The cloze probe (entity ranking; Kassner et al. 2021, Shaier et al. 2024): which entity fills the slot best?

Masked models and encoder-decoders. The sentence is a relation's template with the subject in it, or a natural sentence
of the query's own; a candidate's score is the mean (or maximum, or first) of its tokens' log-probabilities at the masks
of the slot (or, where an encoder-decoder says them one after the other, in it). Causal models rank the same candidates
in the same sentences by the statement probe. See docs/methods/cloze.md.
"""

from __future__ import annotations

from fathom.models.base import Attention, Model
from fathom.probes.slot import SlotProbe


class Probe(SlotProbe):
    """See :class:`fathom.probes.slot.SlotProbe`. Encoder-decoders fill the slot, too."""

    @classmethod
    def _can_ask(cls, model: Model) -> bool:
        return model.attention is Attention.SEQ2SEQ or super()._can_ask(model)
