"""The cloze probe (entity ranking; Kassner et al. 2021, Shaier et al. 2024): which entity fills the slot best?

It needs a masked model or an encoder-decoder. With ``--prior`` a further scoring subtracts the candidate's score
without the subject (PMI; Holtzman et al., "Surface form competition", EMNLP 2021). See docs/methods/cloze.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import QuerySet
from fathom.data.templates import ANSWER, SUBJECT, Template
from fathom.engine.models.base import Attention, Model
from fathom.engine.scoring.slots import CandidateTokens, Slot, encode_slots
from fathom.probes.options import ClozeOptions
from fathom.probes.slot import SlotProbe, SlotQuery
from fathom.store.predictions import Scoring

OVER_PRIOR = "-over-prior"
BARE = Template(f"{ANSWER}.", natural=True)
"""A sentence without content."""


class ClozeProbe(SlotProbe):
    """See :class:`fathom.probes.slot.SlotProbe`; encoder-decoders fill slots, too."""

    @classmethod
    def _fills_slots(cls, model: Model) -> bool:
        return model.attention is Attention.SEQ2SEQ or super()._fills_slots(model)

    def __init__(self, options: ClozeOptions, model: Model, queryset: QuerySet) -> None:
        super().__init__(options, model, queryset)
        self.corrected = options.prior
        self._bare = cache(self._bare_slot)
        if self.corrected:
            # A difference of logarithms is no likelihood, so its unit must not suggest confidence.
            self.scorings += tuple(
                Scoring(f"{scoring.name}{OVER_PRIOR}", "score", (*scoring.parts, ("prior", "taken off")))
                for scoring in self.scorings
            )

    def _scored(self, items: Sequence[SlotQuery], names: CandidateTokens) -> NDArray[np.float32]:
        if not self.corrected or not items:
            return super()._scored(items, names)
        scores = super()._scored(items, names)
        return np.concatenate([scores, scores - self._slot_scores([self._without(item) for item in items], names)])

    def _without(self, item: SlotQuery) -> Slot:
        template = self.queryset.phrasings(item.query)[item.number]
        return self._bare(BARE if template.natural or SUBJECT not in template.text else template)

    def _bare_slot(self, template: Template) -> Slot:
        prompt = template.fill(self.sign, self.sign, capitalize=self.options.capitalize)
        [slot] = encode_slots(self.model.tokenizer, [prompt], sign=self.sign)
        assert slot is not None
        return slot
