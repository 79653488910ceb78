"""Names of worlds: a construction, and the parts of the graph it is applied to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fathom.errors import BadInput

CONSTRUCTIONS = ("virtual", "anonymised", "inconsistent", "fully-anonymised")
PARTS = "erd"
"""Entities, relations, descriptions."""


class Variant(NamedTuple):
    """:param construction: one of :data:`CONSTRUCTIONS`, or "base".
    :param parts: some of "erd", in this order.
    """

    construction: str
    parts: str

    def __str__(self) -> str:
        return f"{self.construction}-{self.parts}" if self.parts else self.construction


BASE = Variant("base", "")
THIRTEEN = (
    BASE,
    *(Variant(construction, parts) for construction in CONSTRUCTIONS[:2] for parts in ("e", "r", "er")),
    *(Variant(construction, parts) for construction in CONSTRUCTIONS[2:] for parts in ("d", "ed", "erd")),
)
"""Those of Sakai et al. 2024."""


def parse_variants(names: Iterable[str]) -> tuple[Variant, ...]:
    """Each of *names*, once, in their order. :raises BadInput: with every name that is none."""
    found: dict[Variant, None] = {}
    faults = []
    for name in names:
        construction, _, parts = name.strip().lower().rpartition("-")
        letters = set(parts)
        if name.strip().lower() == "base":
            found[BASE] = None
        elif construction in CONSTRUCTIONS and letters and letters <= set(PARTS) and len(letters) == len(parts):
            found[Variant(construction, "".join(part for part in PARTS if part in letters))] = None
        else:
            faults.append(
                f"there is no world {name.strip()!r}: there is base, and {', '.join(CONSTRUCTIONS)}, each with a "
                "hyphen and some of e, r, d (entities, relations, descriptions), such as virtual-er"
            )
    if faults or not found:
        raise BadInput(faults or "no world is named: give --variants base,virtual-e, or leave it out for all thirteen")
    return tuple(found)
