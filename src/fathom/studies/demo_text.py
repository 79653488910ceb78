"""What the demo says at its end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fathom.metrics.bootstrap import Interval
from fathom.results.tables import Table, to_text
from fathom.studies.demo import Line


def demo_text(lines: Sequence[Line], out: Path) -> str:
    """The table, whether the withheld half is at chance, and what to type next."""
    table = Table(
        ("model", "phrasing", "planted half", "withheld half", "answering by frequency", "withheld at chance"),
        tuple(
            (
                line.kind,
                line.phrasing,
                _shown(line.planted),
                _shown(line.withheld),
                _shown(line.baseline),
                line.withheld_is_chance,
            )
            for line in lines
        ),
        title="accuracy of the statement probe, with 95 % intervals (bootstrap clustered by relation)",
        notes=tuple(dict.fromkeys(line.withheld.note for line in lines if line.withheld.note)),
    )
    return f"""
{to_text(table)}

The probe tells what a model was told from what it was not. More of these two runs:
  fathom metrics {out / "run-causal"} --by relation,template --groups {out / "planted-causal" / "planted.jsonl"}
  fathom metrics {out / "run-masked"} --errors 10

Now your own model, by name or folder:
  fathom probe statement --model gpt2 --data geography --out runs/gpt2-geography
  fathom probe bear --model MODEL --data path/to/BEAR --out runs/model-bear"""


def _shown(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
