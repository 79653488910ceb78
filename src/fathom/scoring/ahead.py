"""Work of the host that runs ahead of the device: what the next step needs is made while the present one is at work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Step = TypeVar("Step")
Made = TypeVar("Made")


class Ahead(Generic[Step, Made]):
    """Makes what each step needs, of one step at a time in a thread of its own, if it was begun before.

    What makes it is handed in each time, and not kept: else it would keep its maker alive.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "ahead")
        self._begun: tuple[Step, Future[Made]] | None = None

    def begin(self, make: Callable[[Step], Made], step: Step) -> None:
        """So that it is there, or under way, when it is taken. What was begun before and not taken is forgotten.

        :param make: may run beside everything else that is done meanwhile.
        """
        self._begun = step, self._thread.submit(make, step)

    def take(self, make: Callable[[Step], Made], step: Step) -> Made:
        """What *step* needs: begun before, or made now. Raises whatever making it has raised."""
        begun, self._begun = self._begun, None
        return begun[1].result() if begun is not None and begun[0] is step else make(step)
