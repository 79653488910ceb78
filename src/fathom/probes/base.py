"""What every probe is: a way of asking that turns shards of queries into prediction rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fathom.models.base import Model

Row = Mapping[str, Any]


class Probe(Protocol):
    """Made of options, model and query set; refuses in its constructor what it cannot ask."""

    model: Model

    def resolved(self) -> dict[str, Any]:
        """Choices that the options left to the model, for the identity of the run."""
        ...

    def plan(self) -> Sequence[str]:
        """Names of the shards, in order. The same options and data give the same plan."""
        ...

    def ask(self, shard: str) -> list[Row]:
        """The prediction rows of one shard (schema in :mod:`fathom.store.predictions`)."""
        ...

    def circumstances(self) -> dict[str, Any]:
        """What to note of how it went: never anything that a number depends on."""
        ...
