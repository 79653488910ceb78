"""The numbers of runs as their ``metrics.json`` has them, for a list of many runs."""

from __future__ import annotations

from pydantic import Field

from fathom.base.errors import refuse
from fathom.base.reading import Missing, json_file
from fathom.base.reading.objects import Object, object_faults
from fathom.results.summary import METRICS_FILE, RunNumbers
from fathom.store.folder import RunFolder


class StoredNumber(Object):
    """A number of ``metrics.json``."""

    value: float | None
    low: float | None = None
    high: float | None = None


class StoredVerdict(Object):
    """Whether accuracy is above every baseline."""

    verdict: str


class StoredPart(Object):
    """A line of a breakdown."""

    accuracy: StoredNumber | None = None


StoredBaselines = dict[str, dict[str, StoredNumber]]
"""Metric → baseline → number."""
StoredBreakdowns = dict[str, dict[str, StoredPart]]
"""Key → value → part."""


class StoredScoring(Object):
    """The numbers of a scoring; earlier versions stored less."""

    metrics: dict[str, StoredNumber]
    baselines: StoredBaselines = Field(default_factory=dict)
    verdict: StoredVerdict | None = None
    by: StoredBreakdowns = Field(default_factory=dict)


class StoredNumbers(Object):
    """``metrics.json``, as :meth:`RunNumbers.json` makes it."""

    scorings: dict[str, StoredScoring]


def stored_numbers(run: RunFolder) -> StoredNumbers:
    """Return the numbers of a finished run from its ``metrics.json``; of a run without it, compute them.

    :raises BadInput: the file is damaged.
    """
    file = run.path / METRICS_FILE
    try:
        content = json_file(file)
    except Missing:
        content = RunNumbers(run).json()
    refuse(object_faults(file, StoredNumbers, content))
    return StoredNumbers.model_validate(content)
