"""What every probe is: a way of asking that turns shards of queries into prediction rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from fathom.models.base import Model
from fathom.store.predictions import Scoring

Row = Mapping[str, Any]
Progress = Callable[[int, int], None]
"""Called with pieces done and pieces in all."""


class Probe(Protocol):
    """Made of options, model and query set; refuses in its constructor what it cannot ask."""

    model: Model

    @property
    def scorings(self) -> tuple[Scoring, ...]:
        """The ways in which it scores, each with rows of its own; kept in the manifest."""
        ...

    def resolved(self) -> dict[str, Any]:
        """Choices that the options left to the model, for the identity of the run."""
        ...

    def plan(self) -> Sequence[str]:
        """Names of the shards, in order. The same options and data give the same plan."""
        ...

    def prepare(self, artifacts: Path, progress: Progress) -> None:
        """Make what every shard needs (entity vectors, …), once; most probes need nothing.

        :param artifacts: folder of the run to keep it in. What is there already, whole, is from an earlier session of
            the same run and is not made again.
        """
        ...

    def ask(self, shard: str) -> list[Row]:
        """The prediction rows of one shard (schema in :mod:`fathom.store.predictions`)."""
        ...

    def circumstances(self) -> dict[str, Any]:
        """What to note of how it went: never anything that a number depends on. ``notes``, a list of texts, is shown
        below the run's numbers."""
        ...
