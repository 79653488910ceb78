"""Declarations of a probe in a run's manifest (``shows``): units of scorings, headline, cuts, usual options.

With them no reader of a run needs the probe. ``earlier.json`` declares them for runs of version 0.1.0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

NATS = "nats"
RANKED, CHOSEN, GENERATED = "ranked first", "chosen", "generated"
"""Ways in which a model can know an answer."""


class Declarations(NamedTuple):
    """Declarations on the numbers of a run.

    :param scorings: each with its ``unit`` (nats, cosine, score or credit), and others such as ``masks``, ``pooling``.
    :param headline: the first table: "metrics", or "tasks", a line for each relation.
    :param way: :data:`RANKED`, :data:`CHOSEN` or :data:`GENERATED`.
    :param cuts: the k of Hits@k in the headline.
    :param further: names of metrics that only such runs show.
    :param by: names of metrics that breakdowns show in addition to accuracy and MRR.
    :param options: those not at their defaults, and other settings, as a recipe writes them.
    :param notes: on candidates that are excluded or have identical names.
    """

    scorings: Mapping[str, Mapping[str, str]]
    headline: str
    way: str
    cuts: tuple[int, ...]
    further: tuple[str, ...]
    by: tuple[str, ...]
    options: Mapping[str, str]
    notes: tuple[str, ...]

    def scoring(self, name: str) -> Mapping[str, str]:
        """Return the declarations of a scoring, by default the unit "score"."""
        return self.scorings.get(name, {"unit": "score"})


def read_declarations(manifest: Mapping[str, Any]) -> Declarations:
    """Read the declarations of a run of any version."""
    identity = manifest["identity"]
    earlier = _earlier().get(identity.get("probe"), {})
    usual: dict[str, Any] = {"scorings": {}, "headline": "metrics", "cuts": (1, 5, 10), "further": (), "by": ()}
    usual |= {"usual": {}, "recipe": {}, "way": earlier.get("way", RANKED)}
    shows = usual | manifest.get("shows", earlier)
    noted = manifest.get("circumstances", {})
    notes = noted.get("notes") or [
        f"{what}: {said}" for what, said in noted.items() if what.startswith(tuple(earlier.get("notes", ())))
    ]
    if weights := shows["recipe"].get("weights"):
        notes = [*notes, f"weights: {weights}"]
    return Declarations(
        shows["scorings"],
        shows["headline"],
        shows["way"],
        tuple(shows["cuts"]),
        tuple(shows["further"]),
        tuple(shows["by"]),
        _said(identity, shows["usual"]) | shows.get("told", {}) | shows["recipe"],  # earlier runs say "told"
        tuple(notes),
    )


@cache
def _earlier() -> dict[str, Any]:
    return dict(json.loads(Path(__file__).with_name("earlier.json").read_text(encoding="utf-8")))


def _said(identity: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that are not at their defaults, except those in every recipe or without effect on numbers."""
    options = identity.get("options", {})
    elsewhere = {"templates", "reduction", "score", "dtype", "keep_tokens"}
    elsewhere |= {"seed"} if not options.get("limit") else set()
    said = {
        name: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in options.items()
        if name not in elsewhere and value != usual.get(name)
    }
    resolved = identity.get("resolved", {})
    # The user's own, by what they say.
    return said | {
        name: resolved[name]
        for name in ("questions", "own_templates", "chat_template")
        if resolved.get(name) is not None
    }
