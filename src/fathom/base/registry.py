"""Registries that other packages extend by entry points, such as ``fathom.probes``: see docs/howto/extend.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol, TypeVar

from fathom.base.errors import BadInput, alike


class Named(Protocol):
    """An entry of a registry."""

    @property
    def name(self) -> str:
        """The name that users type."""
        ...


Entry = TypeVar("Entry", bound=Named)
REGISTRIES: list[Registry[Any]] = []
"""All registries in use."""


class Registry(Mapping[str, Entry]):
    """Entries by name, in order: Fathom's own, then those of installed packages.

    :param kind: of entries, such as "probe".
    :param group: of its entry points, such as "fathom.probes".
    :param of: the type of entries; by default that of Fathom's own.
    """

    def __init__(self, kind: str, group: str, entries: Iterable[Entry], of: type | None = None) -> None:
        self.kind, self.group = kind, group
        self.faults: list[str] = []
        """One line for each entry point that failed to load."""
        self._entries: dict[str, Entry] = {}
        self._is_loaded = False
        for entry in entries:
            self.add(entry)
            of = of or type(entry)
        self._type = of or object
        REGISTRIES.append(self)

    def add(self, entry: Entry) -> None:
        """Add an entry. :raises ValueError: its name is taken."""
        if entry.name in self._entries:
            raise ValueError(f"there is a {self.kind} '{entry.name}' already")
        self._entries[entry.name] = entry

    def remove(self, entry: Entry) -> None:
        """Remove an entry."""
        del self._entries[entry.name]

    def find(self, name: str) -> Entry:
        """Return the entry of that name. :raises BadInput: there is none; all names are listed."""
        if name not in self:
            like = alike(name, self, 1)
            meant = f"did you mean {like[0]}? " if like else ""
            raise BadInput([f"no {self.kind} '{name}': {meant}there is {', '.join(self)}", *self.faults])
        return self[name]

    def entries(self) -> list[Entry]:
        """Return all entries."""
        return list(self.values())

    def __getitem__(self, name: str) -> Entry:
        self._load()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(list(self._entries))

    def __len__(self) -> int:
        self._load()
        return len(self._entries)

    def _load(self) -> None:
        """Load entry points on first use: packages may import the registry to construct their entries."""
        if self._is_loaded:
            return
        self._is_loaded = True
        for point in sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value)):
            try:
                self.add(self._checked(point.load()))
            except Exception as error:  # a foreign module may raise anything
                package = f"the package {point.dist.name}" if point.dist is not None else point.value
                self.faults.append(f"{package} adds the {self.kind} '{point.name}', which cannot be loaded: {error!r}")

    def _checked(self, entry: object) -> Entry:
        """:raises TypeError: it is of another type than the entries of this registry."""
        if not isinstance(entry, self._type):
            raise TypeError(f"expected {self._type.__name__}, found {type(entry).__name__}")
        return entry  # type: ignore[return-value]


class CommandEntry(NamedTuple):
    """An entry of the registry of commands, light enough for ``fathom --help``.

    :param panel: heading under which it is listed.
    :param make: place of a function that takes this entry and returns a ``typer.Typer``, as "module:name".
    """

    name: str
    panel: str
    does: str
    make: str
