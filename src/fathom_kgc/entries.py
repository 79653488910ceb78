"""The probe and the preset that ``fathom_kgc`` adds; its studies and its kind of runs load more."""

from __future__ import annotations

from pathlib import Path

from fathom.plans.kinds import Preset
from fathom.probes import Entry

LINK_PROBE = Entry(
    "link",
    "fathom_kgc.links.options:LinkOptions",
    "fathom_kgc.links.probe:LinkProbe",
    "Rank all entities of a graph as head and as tail, as a trained link predictor scores them.",
    "fathom kgc evaluate models/transe --data my-graph --out runs/transe",
    needs="link predictor",
    cuts=(1, 3, 10),
    by=("hits@3", "hits@10", "mean_rank"),
)
SAKAI2024 = Preset("sakai2024", Path(__file__).parent / "presets" / "sakai2024.yaml")
