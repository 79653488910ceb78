"""What does the study of choice conclude of answerers whose ways are known? Each answers the questions of one rule
again and again, and it is counted what is concluded.

    python benchmarks/choosers.py [--seeds 200] [--items 100] [--options 4]

*controls*: questions as ``fathom build choices`` makes them; *published*: as OntoProbe's files are. The answerers are
those of ``tests/choosers.py``.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.choosers import NOT_REASONING, Chooser, copying_or_associating, reasoning, simulated

from fathom.studies.choice_bias import likings
from fathom.studies.choice_controls import NOT_SHOWN, PARTLY, REASONING, UNTOLD, controlled


def shares(chooser: Chooser, seeds: int, items: int, options: int, controls: bool) -> Counter[str]:
    """How often each conclusion is drawn."""
    found: Counter[str] = Counter()
    for seed in range(seeds):
        asked = simulated(chooser, seed, items, options, controls)
        [conclusion] = controlled([(asked, likings(asked))])[1]
        found[conclusion.conclusion] += 1
    return found


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seeds", 200), ("items", 100), ("options", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    columns = (REASONING, PARTLY, NOT_SHOWN, UNTOLD)
    print(f"| answerer | questions | {' | '.join(columns)} |\n|---|---|{'---:|' * len(columns)}")
    every = NOT_REASONING | {"copying or associating": copying_or_associating, "reasoning": reasoning}
    for name, chooser in every.items():
        for controls in (True, False):
            found = shares(chooser, given.seeds, given.items, given.options, controls)
            told = " | ".join(f"{100 * found[column] / given.seeds:.1f} %" for column in columns)
            print(f"| {name} | {'controls' if controls else 'published'} | {told} |", flush=True)


if __name__ == "__main__":
    main()
