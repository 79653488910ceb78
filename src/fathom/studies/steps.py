"""Steps from a model to the next larger one, shared by the studies of sizes and rankings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fathom.results.baselines import which_is_above
from fathom.results.claims import Claim, Contrast, Decision, decide
from fathom.results.estimates import Estimate

Side = TypeVar("Side")


class SizeStep(NamedTuple):
    """A paired difference between a model and the next larger one.

    :param about: cells that identify the step, by column.
    :param difference: larger − smaller; without a value if their candidates or facts differ.
    :param decision: None for secondary steps.
    :param above: which of the two is above the baselines on these facts, see :func:`which_is_above`.
    """

    about: Mapping[str, str]
    smaller: str
    larger: str
    difference: Estimate
    decision: Decision | None = None
    above: str | None = None

    @property
    def verdict(self) -> str | None:
        """Return whether accuracy rises or drops significantly; else why not."""
        return None if self.decision is None else {1: "rise", -1: "drop"}.get(self.decision.sign, self.decision.word)

    @property
    def row(self) -> dict[str, Any]:
        """The step as a row of a table."""
        models = {"from": self.smaller, "to": self.larger}
        return {**self.about, **models, "difference": self.difference, "verdict": self.verdict} | {
            "above baseline": self.above
        }


def decide_steps(
    steps: Sequence[SizeStep], claims: Mapping[Side, Claim | None], side: Callable[[SizeStep, str], Side]
) -> tuple[list[SizeStep], dict[Side, Decision | None]]:
    """Decide as one family which steps change accuracy and which models are above the baselines.

    :param claims: that a model is above its baselines; None without any.
    :param side: key in *claims* of a step's model.
    :returns: the decided steps, and a decision for each claim.
    """
    changes = [Claim(f"{step.larger} − {step.smaller}", (Contrast("difference", step.difference),)) for step in steps]
    decisions = iter(decide([*changes, *filter(None, claims.values())]))
    changed = [next(decisions) for _ in steps]
    above = {key: None if claim is None else next(decisions) for key, claim in claims.items()}
    return [
        step._replace(
            decision=decision,
            above=which_is_above(
                [above[side(step, model)] for model in (step.smaller, step.larger)], (step.smaller, step.larger)
            ),
        )
        for step, decision in zip(steps, changed, strict=True)
    ], above
