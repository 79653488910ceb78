"""Numbers as readers see them."""

from __future__ import annotations

PERCENT, POINTS = " %", " points"


def format_value(value: float, form: str) -> str:
    """Return a value in a display format: a share ".1%" as "61.5 %", a difference "+.1%" as "+21.8 points"."""
    if not form.endswith("%"):
        return format(value, form)
    return f"{100 * value:{form[:-1]}f}{POINTS if form.startswith('+') else PERCENT}"
