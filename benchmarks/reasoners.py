"""What does the study of entailment conclude of answerers whose ways are known? Each answers all that it asks of 100
items of rdfs9, as in ``tests/test_entailment_controls.py``, where the verdicts are tested.

    python benchmarks/reasoners.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.test_entailment_controls import ANSWERERS, MEMORY, SAID, asked, small_model, verdict, write_things

WHAT = {"uses what it remembers": MEMORY, "combines what is said": SAID}


def main() -> None:
    controls = [control for some in WHAT.values() for control in some]
    print("| answers | " + " | ".join(controls) + " | " + " | ".join(WHAT) + " |")
    print("|---" * (1 + len(controls) + len(WHAT)) + "|")
    model = small_model()
    for name, answerer in ANSWERERS.items():
        with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
            found = asked(write_things(Path(folder)), model, Path(folder) / "out", answerer, patch).contrasts
        cells = [f"{one.gain.value:+.2f} [{one.gain.low:+.2f}, {one.gain.high:+.2f}]" for one in found]
        verdicts = [verdict([one for one in found if one.conclusion == what]) for what in WHAT]
        print("| " + " | ".join([name.replace("_", " "), *cells, *verdicts]) + " |", flush=True)


if __name__ == "__main__":
    main()
