"""Whether a model prefers a position among the options of multiple-choice questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from scipy.special import bdtrc

from fathom.results.metrics.significance import LEVEL
from fathom.results.rows import Ints, Rows


class PreferredPosition(NamedTuple):
    """A position that is chosen too often.

    :param letter: of the option there.
    :param times: how often it was chosen, of *choices*.
    """

    letter: str
    times: int
    choices: int

    def __str__(self) -> str:
        return (
            f"({self.letter}) was chosen {self.times:,} of {self.choices:,} times, whether right or wrong: the model "
            "prefers that position (--orders shows options in several)."
        )


def preferred_position(rows: Rows, asked: Ints) -> PreferredPosition | None:
    """Return the position that takes more than its share of choices, None if no position does significantly.

    :param asked: predictions of one scoring.
    """
    if not {"letters", "gold_letters"} <= set(rows.table.column_names):
        return None
    columns = (rows.table[name].take(asked).to_pylist() for name in ("letters", "gold_letters"))
    sizes = rows.number_of_candidates[asked].tolist()
    choices = [
        (letter, gold, int(size))
        for letters, golds, size in zip(*columns, sizes, strict=True)
        for letter, gold in zip(letters or (), golds or (), strict=True)
        if letter is not None
    ]
    counts = Counter(letter for letter, *_ in choices)
    if not counts:
        return None
    letter, p_value = min(_p_values(choices).items(), key=lambda item: item[1], default=("", 1.0))
    return PreferredPosition(letter, counts[letter], len(choices)) if p_value < LEVEL else None


def _p_values(choices: Sequence[tuple[str, str, int]]) -> dict[str, float]:
    """Return how surprising the wrong choices of each position are, by Bonferroni over the positions.

    Without a preference a wrong choice is any wrong option's position. Right choices say nothing: their position is
    that of the gold answer.

    :param choices: letter, gold letter and number of options.
    """
    wrong = [(letter, gold, size) for letter, gold, size in choices if letter != gold and size > 2]
    p_values = {}
    for position in dict.fromkeys(letter for letter, *_ in wrong):
        possible = [(letter, size) for letter, gold, size in wrong if gold != position]
        count = sum(letter == position for letter, _ in possible)
        chance = sum(1 / (size - 1) for _, size in possible) / len(possible)
        positions = max(size for *_, size in wrong)
        p_values[position] = min(1.0, positions * float(bdtrc(count - 1, len(possible), chance)))
    return p_values
