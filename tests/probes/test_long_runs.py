"""A run that will take long says so once, and what fewer queries would give."""

from __future__ import annotations

import pytest

from fathom.probes import run


@pytest.mark.parametrize(
    ("first", "done", "total", "seconds", "said"),
    [
        (0, 50, 781, 80, ["about 21 minutes; --limit 200 gives ± 7 points in 5"]),
        (700, 750, 3781, 80, ["about 82 minutes; --limit 200 gives ± 7 points in 5"]),  # a resumed run: 3,081 are left
        (0, 10, 300, 30, ["about 15 minutes"]),
        (0, 50, 781, 30, []),
        (0, 50, 781, 10, []),
        (0, 0, 781, 80, []),
    ],
)
def test_a_long_run_is_announced(monkeypatch, first, done, total, seconds, said):
    now, lines, seen = [0.0], [], []
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(run, "log", lines.append)
    report = run.noting_length(lambda *place: seen.append(place))
    report(first, total)
    now[0] = seconds
    report(done, total)
    report(done, total)
    assert lines == said
    assert seen == [(first, total), (done, total), (done, total)]
