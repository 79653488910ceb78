"""What an ontology gave: classes, properties, and the items of each task."""

from __future__ import annotations

from fathom.building.ontology import Built
from fathom.formats.ontoprobe import SPLIT_SIZES
from fathom.results.tables import Table


def ontology_tables(built: Built) -> list[Table]:
    found = {
        "classes": len(built.classes),
        "  with instances": sum(bool(entry.instances) for entry in built.classes),
        "  with super-classes": sum(bool(entry.superclasses) for entry in built.classes),
        "instances": sum(len(entry.instances) for entry in built.classes),
        "properties": len(built.properties),
        "  aligned with another vocabulary": sum(len(entry.iris) > 1 for entry in built.properties),
        "default patterns": len(built.defaults),
    }
    notes = (
        (f'default patterns ("[X]\'s … is [Y] ."): {", ".join(sorted(built.defaults)[:5])}; --patterns gives better',)
        if built.defaults
        else ()
    )
    return [
        Table(("what", "number"), tuple(found.items()), "the ontology", notes=notes),
        Table(("task", "items", *SPLIT_SIZES), tuple(_task(*task) for task in built.tasks.items()), "the tasks"),
    ]


def _task(name: str, items: int) -> tuple[str | int, ...]:
    left = items
    sizes = []
    for size in SPLIT_SIZES.values():
        sizes.append(min(size, left))
        left -= sizes[-1]
    return (name, items, *sizes)
