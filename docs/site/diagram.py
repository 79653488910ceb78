"""The diagram of packages as SVG, drawn from the imports of the code."""

from __future__ import annotations

from tests.architecture import imports, reduced

WIDE, HIGH, BOX, TALL = 150, 72, 110, 34
STYLE = (
    "text{font:14px sans-serif;text-anchor:middle;fill:#1d2733}rect{fill:#e8f1f8;stroke:#33658a;rx:5}"
    "path{fill:none;stroke:#7a8ca0;stroke-width:1.4;marker-end:url(#tip)}.tip{fill:#7a8ca0;stroke:none}"
)
TIP = '<path class="tip" d="M0 0 8 4 0 8z"/>'


def draw() -> str:
    """Return the SVG: an arrow from each package to those that it builds on, each below all that import it."""
    graph = reduced(imports())

    def depth(name: str) -> int:
        return 1 + max((depth(other) for other in graph if name in graph[other]), default=-1)

    place: dict[str, tuple[float, float]] = {}
    for y in range(1 + max(map(depth, graph))):
        row = sorted(name for name in graph if depth(name) == y)
        row.sort(key=lambda name: min((place[other][0] for other in graph if name in graph[other]), default=0))
        place |= {name: (WIDE * (2.5 + x - (len(row) - 1) / 2), HIGH * (y + 0.5)) for x, name in enumerate(row)}
    lines = []
    for (x, y), (to_x, to_y) in ((place[name], place[other]) for name in graph for other in sorted(graph[name])):
        side = to_x if to_y - y <= HIGH else x + WIDE * (1.2 if x >= 2.5 * WIDE else -1.2)  # around the boxes between
        bend = f"C{x:g} {y + HIGH * 0.6:g} {side:g} {to_y - HIGH * 0.6:g} {to_x:g} {to_y - TALL / 2 - 3:g}"
        lines.append(f'<path d="M{x:g} {y + TALL / 2:g}{bend}"/>')
    for name, (x, y) in place.items():
        lines.append(f'<rect x="{x - BOX / 2:g}" y="{y - TALL / 2:g}" width="{BOX}" height="{TALL}"/>')
        lines.append(f'<text x="{x:g}" y="{y + 5:g}">{name}</text>')
    size = f"{5 * WIDE} {max(y for _, y in place.values()) + HIGH / 2:g}"
    tip = f'<marker id="tip" refX="6" refY="4" markerWidth="9" markerHeight="8" orient="auto">{TIP}</marker>'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"><style>{STYLE}</style>{tip}'
    return f'{start}<rect width="100%" height="100%" style="fill:#fff;stroke:none"/>{"".join(lines)}</svg>\n'
