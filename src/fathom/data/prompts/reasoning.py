"""Removal of a model's reasoning from its replies."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from fathom.base.errors import BadInput

NONE, THINK = "none", "think"
_NAMED = {THINK: ("<think>", "</think>")}
_BETWEEN = "..."


class Cut(NamedTuple):
    """:param text: the answer. :param cut: whether something was cut. :param unfinished: the reasoning never ended."""

    text: str
    cut: bool = False
    unfinished: bool = False


class Cutter:
    """Removes reasoning from replies and counts.

    It counts ``reasoning_cut``, ``reasoning_unfinished`` and, if no form is given, ``reasoning_uncut``: replies with
    the signs of a named form.

    :param form: "none", "think", or two signs with "..." between them.
    :raises BadInput: another form.
    """

    def __init__(self, form: str) -> None:
        begin, between, end = form.partition(_BETWEEN)
        self._begin, self._end = _NAMED.get(form) or (begin.strip(), end.strip())
        self.cuts = form != NONE
        if self.cuts and form not in _NAMED and not (between and self._begin and self._end):
            raise BadInput(
                f"--cut-reasoning {form!r}: expected none, {', '.join(_NAMED)}, or two signs with {_BETWEEN} between "
                "them, such as '[THINK]...[/THINK]'"
            )
        self.counts: Counter[str] = Counter()

    def notes(self) -> list[str]:
        """Return notes for readers of the results."""
        texts = {
            "reasoning_uncut": "some replies hold <think>: --cut-reasoning think takes such parts for no answer",
            "reasoning_unfinished": "some replies are unscored, as their reasoning had not ended: allow more tokens",
        }
        return [f"{text} (counted in the manifest as {name})" for name, text in texts.items() if self.counts[name]]

    def read(self, reply: str, asked: str = "") -> Cut:
        """Remove the text between the signs. :param asked: the text that the model continued, if known.

        An end without a start ends reasoning that started before the reply; a start without an end extends to the
        reply's end.
        """
        if not self.cuts:
            if any(sign in reply for signs in _NAMED.values() for sign in signs):
                self.counts["reasoning_uncut"] += 1
            return Cut(reply)
        cut = self._cut(reply, opened=asked.rstrip().endswith(self._begin))
        if cut.cut:
            self.counts["reasoning_unfinished" if cut.unfinished else "reasoning_cut"] += 1
        return cut

    def _cut(self, reply: str, opened: bool) -> Cut:
        """:param opened: the prompt ends with the start sign."""
        first, last = reply.find(self._begin), reply.find(self._end)
        ended_first = last >= 0 and (first < 0 or last < first)
        started = ended_first or (opened and first < 0)
        kept, rest, cut = "", f"{self._begin}{reply}" if started else reply, False
        while True:
            before, begun, inside = rest.partition(self._begin)
            kept += before
            if not begun:
                return Cut(kept, cut)
            _, ended, rest = inside.partition(self._end)
            cut = True
            if not ended:
                return Cut(kept, True, True)
