"""The cloze probe (entity ranking; Kassner et al. 2021, Shaier et al. 2024): which entity fills the slot best?

Masked models and encoder-decoders. The sentence is a relation's template with the subject in it, or a natural sentence
of the query's own; a candidate's score is the mean (or maximum, or first) of its tokens' log-probabilities at the masks
of the slot (or, where an encoder-decoder says them one after the other, in it). With --prior a further scoring takes
off what the model says of the candidate without what is asked about, as Holtzman et al. ("Surface form competition",
EMNLP 2021) do: PMI with a premise that is the template's own, or none. Causal models rank the same candidates
in the same sentences by the statement probe. See docs/methods/cloze.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fathom.data.queries import QuerySet
from fathom.data.templates import ANSWER, SUBJECT, Template
from fathom.models.base import Attention, Model
from fathom.probes.options import ClozeOptions
from fathom.probes.slot import TOP, AskedSlot, SlotProbe
from fathom.scoring.screening import settle
from fathom.scoring.slots import Names, Slot, encode_slots, slot_scores
from fathom.store.predictions import Scoring

OVER_PRIOR = "-over-prior"
BARE = Template(f"{ANSWER}.", natural=True)
"""A sentence that asks nothing."""


class ClozeProbe(SlotProbe):
    """See :class:`fathom.probes.slot.SlotProbe`. Encoder-decoders fill the slot, too."""

    @classmethod
    def _can_ask(cls, model: Model) -> bool:
        return model.attention is Attention.SEQ2SEQ or super()._can_ask(model)

    def __init__(self, options: ClozeOptions, model: Model, queryset: QuerySet) -> None:
        super().__init__(options, model, queryset)
        self.corrected = options.prior
        self._bare = cache(self._bare_slot)
        if self.corrected:
            # A difference of logarithms: no likelihood, so that nobody takes it for the model's confidence.
            self.scorings += tuple(
                Scoring(f"{one.name}{OVER_PRIOR}", "score", (*one.parts, ("prior", "taken off")))
                for one in self.scorings
            )

    def idle(self) -> Mapping[str, str]:
        """Also screening, whose bounds do not hold for differences."""
        return {**super().idle(), **({"screen": "with --prior all scores are exact"} if self.corrected else {})}

    def _scored(self, asked: Sequence[AskedSlot], names: Names) -> NDArray[np.float32]:
        """With --prior the corrected scores follow, [2 · ways, asked, candidates]."""
        if not self.corrected or not asked:
            return self._uncorrected(asked, names)
        scores = super()._scored(asked, names)
        return np.concatenate([scores, scores - self._slot_scores([self._without(item) for item in asked], names)])

    def _without(self, item: AskedSlot) -> Slot:
        """The sentence without what is asked about."""
        template = self.queryset.phrasings(item.query)[item.number]
        return self._bare(BARE if template.natural or SUBJECT not in template.text else template)

    def _bare_slot(self, template: Template) -> Slot:
        prompt = template.fill(self.sign, self.sign, capitalize=self.options.capitalize)
        [slot] = encode_slots(self.model.tokenizer, [prompt], sign=self.sign)
        assert slot is not None
        return slot

    def _uncorrected(self, asked: Sequence[AskedSlot], names: Names) -> NDArray[np.float32]:
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
