"""Conclusions of studies about answerers whose behaviour is known; the answerers are those of the tests."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from harness import Table, benchmark


@benchmark
def choosers(seeds: int = 200, items: int = 100, options: int = 4) -> None:
    """Count the conclusions of the choice study about answerers of known behaviour.

    Each answers the questions of one rule, --seeds times. *controls*: questions as `fathom build choices` makes them;
    *published*: as OntoProbe's files are.
    """
    from tests.choosers import NOT_REASONING, copying_or_associating, reasoning, simulated

    from fathom.studies.reasoning.choice_controls import evaluate_controls, preferences

    drawn: dict[tuple[str, str], Counter[str]] = {}
    answerers = NOT_REASONING | {"copying or associating": copying_or_associating, "reasoning": reasoning}
    for name, chooser in answerers.items():
        for controls in (True, False):
            counts = drawn.setdefault((name, "controls" if controls else "published"), Counter())
            for seed in range(seeds):
                answers = simulated(chooser, seed, items, options, controls)
                [conclusion] = evaluate_controls([(answers, preferences(answers))])[1]
                counts[conclusion.conclusion] += 1
    columns = sorted({conclusion for counts in drawn.values() for conclusion in counts})
    table = Table("answerer", "questions", *columns)
    for key, counts in drawn.items():
        table.row(*key, *(f"{100 * counts[column] / seeds:.1f} %" for column in columns))


@benchmark
def reasoners() -> None:
    """Show the conclusions of the entailment study about answerers of known behaviour."""
    from tests.test_entailment_controls import ANSWERERS, MEMORY, SAID, asked, small_model, verdict, write_things

    conclusions = {"uses what it remembers": MEMORY, "combines what is said": SAID}
    table = Table("answers", *(control for controls in conclusions.values() for control in controls), *conclusions)
    model = small_model()
    for name, answerer in ANSWERERS.items():
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            study = asked(write_things(Path(folder)), model, Path(folder) / "out", answerer, patch)
        contrasts = study.contrasts
        cells = [f"{one.gain.value:+.2f} [{one.gain.low:+.2f}, {one.gain.high:+.2f}]" for one in contrasts]
        verdicts = [verdict([one for one in contrasts if one.conclusion == what]) for what in conclusions]
        table.row(name.replace("_", " "), *cells, *verdicts)
