"""Registries that others can extend: probes, formats, metrics, studies, link predictors and builders.

An installed package adds an entry by an entry point of the registry's group, such as ``fathom.probes``, whose object is
the entry itself; a script or a test by :meth:`Door.add`. See docs/howto/extend.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, TypeVar

from fathom.errors import BadInput, alike


class Named(Protocol):
    """An entry of a registry."""

    @property
    def name(self) -> str:
        """The name that users type."""
        ...


Entry = TypeVar("Entry", bound=Named)


class Door(Mapping[str, Entry]):
    """Entries by name, in order: Fathom's own, then those of installed packages, by package.

    :param kind: what an entry is, in a word or two, such as "probe".
    :param group: of its entry points, such as "fathom.probes".
    :param own: the entries that Fathom brings.
    """

    def __init__(self, kind: str, group: str, own: Iterable[Entry]) -> None:
        self.kind, self.group = kind, group
        self.faults: list[str] = []
        """One line for each entry point that could not be loaded."""
        self._entries: dict[str, Entry] = {}
        self._looked = False
        for entry in own:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """:raises ValueError: there is an entry of that name."""
        names = dict.fromkeys((entry.name, getattr(entry, "alias", None) or entry.name), entry)
        if taken := names.keys() & self._entries.keys():
            raise ValueError(f"there is a {self.kind} '{min(taken)}' already")
        self._entries |= names

    def remove(self, entry: Entry) -> None:
        """Remove an entry."""
        self._entries = {name: there for name, there in self._entries.items() if there is not entry}

    def find(self, name: str) -> Entry:
        """Return an entry. :raises BadInput: no such entry; the message lists all."""
        if name not in self:
            like = alike(name, self, 1)
            meant = f"did you mean {like[0]}? " if like else ""
            raise BadInput([f"no {self.kind} '{name}': {meant}there is {', '.join(self)}", *self.faults])
        return self[name]

    def entries(self) -> list[Entry]:
        """Return the entries, without repeating those with an alias."""
        return list({id(entry): entry for entry in self.values()}.values())

    def __getitem__(self, name: str) -> Entry:
        self._look()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._look()
        return iter(list(self._entries))

    def __len__(self) -> int:
        self._look()
        return len(self._entries)

    def _look(self) -> None:
        """Load the entry points of installed packages on first use, as some import the registry to make their entry."""
        if self._looked:
            return
        self._looked = True
        for point in sorted(entry_points(group=self.group), key=lambda one: (one.name, one.value)):
            try:
                self.add(point.load())
            except Exception as error:  # whatever a stranger's module raises, the rest must work
                self.faults.append(
                    f"{_package(point)} adds the {self.kind} '{point.name}', which cannot be loaded: {error!r}"
                )


def _package(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist is not None else point.value
