"""Changes of accuracy from one model to the next: a larger one, or a later checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from fathom.results.baselines import which_is_above
from fathom.results.claims import Claim, Contrast, Decision, decide
from fathom.results.estimates import Estimate

Key = TypeVar("Key")
Model = TypeVar("Model")


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
    changes: Mapping[Key, AccuracyChange],
    claims: Mapping[Model, Claim | None],
    model_of: Callable[[AccuracyChange, str], Model],
) -> tuple[dict[Key, AccuracyChange], dict[Model, Decision]]:
    """Decide as one family which changes are significant and which models are above the baselines.

    :param claims: that a model is above its baselines; None without any.
    :param model_of: takes a change and the name of one of its models; returns its key in *claims*.
    :returns: the decided changes, and a decision for each claim, by their keys.
    """
    family: dict[tuple[str, object], Claim | None] = {("above", model): claim for model, claim in claims.items()}
    for key, change in changes.items():
        contrast = Contrast("difference", change.difference)
        family["change", key] = Claim(f"{change.after} − {change.before}", (contrast,))
    decisions = decide(family)
    above = {model: decisions["above", model] for model in claims if ("above", model) in decisions}
    decided = {}
    for key, change in changes.items():
        both = change.before, change.after
        is_above = which_is_above([above.get(model_of(change, model)) for model in both], both)
        decided[key] = change._replace(decision=decisions["change", key], above=is_above)
    return decided, above
