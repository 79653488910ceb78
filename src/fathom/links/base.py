"""What every link predictor is: trained on a graph, it ranks all its entities as the answer to a question."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model
from torch import nn
from transformers import AutoConfig

from fathom.data.graph.links import Links, split_links
from fathom.data.knowledge import KnowledgeGraph
from fathom.links.fit import NOT_SCORED, Line, fit
from fathom.links.options import LinkTraining
from fathom.metrics.ranking import hits_at_k, reciprocal_rank
from fathom.models.base import Identity
from fathom.models.loading import from_pretrained
from fathom.probes.base import Facts
from fathom.scoring.rows import Found
from fathom.store.predictions import Scoring
from fathom.training.loop import Stage
from fathom.training.saving import State

Progress = Callable[[int, int], None]
BLOCK = 256
"""Questions that are validated on at a time."""


class Predictor(ABC):
    """A link predictor of one graph. Its constructor makes it untrained: :meth:`load` or :meth:`train` come after.

    :param graph: whose entities and relations it knows by their place.
    :param options: of its kind.
    :param source: folder that :meth:`describe` wrote, to be made alike (without reading the weights); None to begin
        anew as the options say.
    """

    scoring: Scoring
    """What its scores are."""
    network: nn.Module
    """Everything that is learnt."""
    options: Any
    identity: Identity
    tokenizer: Any = None

    def __init__(self, graph: KnowledgeGraph, options: LinkTraining, source: Path | None, device: torch.device) -> None:
        self.graph, self.options, self.device = graph, options, device

    # ---------------------------------------------------------------------------------------------- to be written

    @abstractmethod
    def rank(self, links: Links, top: int, keep_scores: bool = False) -> list[Found]:
        """The place of each right answer among all entities, filtered; in the order of the questions.

        A search that stopped before it found the right answer says so by ``above``. Called in evaluation mode without
        gradients, after :meth:`prepare`.

        :param top: how many of the best answers to list, known ones among them.
        :param keep_scores: also give the scores of all entities, where there are such.
        """

    def stages(self) -> Sequence[Stage]:
        """How it is trained, for those that :func:`~fathom.links.fit.fit` trains."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------- what few kinds do otherwise

    @classmethod
    def check(cls, options: Any) -> None:
        """What can be told of options without a graph, and quickly. :raises BadInput: no such language model, …"""
        weights = getattr(options, "weights", None)
        if weights is not None and getattr(options, "server", None) is None:
            from_pretrained(AutoConfig, weights, {})

    def prepare(self, progress: Progress) -> None:  # noqa: B027
        """Make what all questions share (entity vectors, …). Called again whenever the weights have changed."""

    def prepare_in(self, artifacts: Path, progress: Progress) -> None:
        """:meth:`prepare` for a run. :param artifacts: its folder, for what must survive a kill (answered calls, …)."""
        self.prepare(progress)

    def train(self, folder: Path, progress: Progress) -> Line:
        """:returns: why and where it ended (see :func:`~fathom.links.fit.fit`)."""
        return fit(self, folder, progress)

    def describe(self, folder: Path) -> None:  # noqa: B027
        """Write what the constructor needs of ``source`` (configuration, tokenizer), without the weights."""

    def load(self, folder: Path) -> None:
        """Read the weights that a training left in *folder*, to be asked: without dropout."""
        load_model(self.network, str(folder / "weights.safetensors"))
        self.network.eval()

    def state(self) -> State:
        """What a checkpoint must hold beside weights and optimiser: tensors, numbers, texts."""
        return {}

    def set_state(self, state: State) -> None:  # noqa: B027
        """Take back what :meth:`state` gave."""

    def notes(self) -> list[str]:
        """What its user should know of this graph and this predictor: "12 entities have no description"."""
        return []

    def circumstances(self) -> Facts:
        """What to note of how asking went."""
        return {}

    # ------------------------------------------------------------------------------------------------------------

    @cached_property
    def validation(self) -> Links | None:
        """The questions that validation asks; None where the graph has no such split."""
        if "dev" not in self.graph.splits:
            return None
        return split_links(self.graph, "dev", self.options.validate_on, self.options.seed)

    def validate(self) -> Mapping[str, float]:
        """Hits@1, 3, 10 and MRR on the validation split, both directions, filtered; nothing where there is none.

        A question without a rank is a miss here: validation chooses among epochs and reports nothing.
        """
        links = self.validation
        if links is None or not len(links):
            return {}
        self.prepare(lambda done, total: None)
        places = [torch.arange(start, min(start + BLOCK, len(links))) for start in range(0, len(links), BLOCK)]
        found = [one for some in places for one in self.rank(links.take(some.numpy()), top=1)]
        return measured(found)


def measured(found: Sequence[Found]) -> dict[str, float]:
    """Hits@k (expected under ties) and MRR, a question without a rank counting as a miss; the share without a score."""
    ranks = [one.ranks for one in found if one.ranks is not None]
    optimistic, pessimistic = [rank.optimistic for rank in ranks], [rank.pessimistic for rank in ranks]
    values = {f"hits@{k}": hits_at_k(optimistic, pessimistic, k).sum() / len(found) for k in (1, 3, 10)}
    values["mrr"] = reciprocal_rank([rank.realistic for rank in ranks]).sum() / len(found)
    values[NOT_SCORED] = sum(one.unscored is not None for one in found) / len(found)
    return {name: float(value) for name, value in values.items()}
