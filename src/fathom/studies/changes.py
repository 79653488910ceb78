"""Changes of accuracy from one model to the next: a larger one, or a later checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fathom.results.baselines import which_is_above
from fathom.results.claims import Claim, Contrast, Decision, decide_all
from fathom.results.estimates import Estimate

Key = TypeVar("Key")


class AccuracyChange(NamedTuple):
    """A paired difference between a model and the next one.

    :param about: cells that identify the change, by column.
    :param difference: after − before; without a value if their candidates or facts differ.
    :param decision: None for secondary changes.
    :param above: which of the two is above the baselines on these facts, see :func:`which_is_above`.
    """

    about: Mapping[str, str]
    before: str
    after: str
    difference: Estimate
    decision: Decision | None = None
    above: str | None = None

    @property
    def verdict(self) -> str | None:
        """Whether accuracy rises or drops significantly; else why not."""
        return None if self.decision is None else {1: "rise", -1: "drop"}.get(self.decision.sign, self.decision.word)

    @property
    def row(self) -> dict[str, Any]:
        """Cells of a table."""
        numbers = {"difference": self.difference, "verdict": self.verdict, "above baseline": self.above}
        return {**self.about, "from": self.before, "to": self.after, **numbers}


def decide_changes(
    changes: Sequence[AccuracyChange], claims: Mapping[Key, Claim | None], key: Callable[[AccuracyChange, str], Key]
) -> tuple[list[AccuracyChange], dict[Key, Decision | None]]:
    """Decide as one family which changes are significant and which models are above the baselines.

    :param claims: that a model is above its baselines; None without any.
    :param key: in *claims*, of a change's model.
    :returns: the decided changes, and a decision for each claim.
    """
    own = [Claim(f"{one.after} − {one.before}", (Contrast("difference", one.difference),)) for one in changes]
    decisions = decide_all([*own, *claims.values()])
    above = dict(zip(claims, decisions[len(changes) :], strict=True))
    decided = []
    for one, decision in zip(changes, decisions, strict=False):
        both = one.before, one.after
        is_above = which_is_above([above[key(one, model)] for model in both], both)
        decided.append(one._replace(decision=decision, above=is_above))
    return decided, above
