"""A finished run in Python, and types of arguments of the API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from fathom.base.errors import BadInput, optional
from fathom.data.formats import read
from fathom.data.formats.fact_table import Frame
from fathom.data.queries import QuerySet
from fathom.results.answers import consistency_table, error_table, tidy_table
from fathom.results.estimates import Estimate
from fathom.results.metrics.table import metric
from fathom.results.summary import METRICS_FILE, RunNumbers, Summary
from fathom.results.tables import Table
from fathom.store.files import write_json
from fathom.store.folder import RunFolder

if TYPE_CHECKING:
    from fathom.engine.models.base import Model
    from fathom.engine.models.server import ChatServer

ModelSource: TypeAlias = "str | Path | Model | ChatServer"
"""A model: its name or folder, or itself."""
Source: TypeAlias = str | Path | Frame | QuerySet
"""Data: their name or folder, a data frame of facts, or a query set."""
Out: TypeAlias = str | Path | None
"""Folder of a run."""


class Result:
    """A finished run.

    :param cluster: sampling unit of the intervals: "query", "relation", "subject", "answer", or a key of the data's
        groups; by default relations if there are ten or more of similar size, else the facts within each.

    >>> result = fathom.open_run("reference:SmolLM2-135M-Instruct")
    >>> print(result["hits@10"])
    82.8 % [80.0, 85.4]
    """

    def __init__(self, folder: RunFolder, cluster: str = "") -> None:
        self.folder, self.cluster = folder, cluster

    def __repr__(self) -> str:
        return f"<Result in {str(self.folder.path)!r}: {self.folder.describe()}; summary() has the numbers>"

    def table(self) -> pa.Table:
        """Return all predictions (schema in docs/run-folder.md) with the columns of their queries appended."""
        predictions, queries = self.folder.predictions(), self.folder.queries()
        row = {query: number for number, query in enumerate(queries.column("query_id").to_pylist())}
        columns = queries.take([row[query] for query in predictions.column("query_id").to_pylist()])
        for name in columns.column_names[1:]:
            predictions = predictions.append_column(name, columns.column(name))
        return predictions

    def to_pandas(self, full: bool = False) -> Any:
        """Return a pandas data frame with one row per prediction: per query, template and scoring.

        ``first_answer`` is the best-scored answer, or the one that was written; of tied answers the one with the
        smallest id. ``correct`` is its credit from 0 to 1, below 1 if it is tied with wrong answers. ``gold_score`` has
        the unit of the scoring; ``confidence`` is the softmax probability of the first answer. Unscored predictions
        have a reason in ``unscored`` and no numbers. The other columns: query_id, relation, direction (if there are
        any), template, scoring, subject, prompt, gold, rank, candidates (how many).

        :param full: every column of :meth:`table`, and one for each group of the queries.
        :raises MissingExtra: pandas is not installed.
        """
        optional("pandas", "pandas")
        return self._columns(full).to_pandas()

    def to_polars(self, full: bool = False) -> Any:
        """Return :meth:`to_pandas` as a polars data frame. :raises MissingExtra: polars is not installed."""
        return optional("polars", "polars").from_arrow(self._columns(full))

    def _columns(self, full: bool) -> pa.Table:
        if not full:
            return tidy_table(self.folder)
        table = self.table()
        groups = [dict(group) for group in table.column("groups").to_pylist()]
        table = table.drop_columns(["groups"])
        for name in dict.fromkeys(key for group in groups for key in group):
            table = table.append_column(name, pa.array([group.get(name) for group in groups], pa.string()))
        return table

    @property
    def accuracy(self) -> Estimate:
        """The share of right answers, with its interval. :raises BadInput: several scorings, or none scored."""
        return self["accuracy"]

    def __getitem__(self, asked: str | tuple[str, str]) -> Estimate:
        """Return a number with its interval: ``result["hits@10"]``, or ``result["mrr", "mean/full"]`` of one scoring.

        :raises BadInput: an unknown metric or scoring, several scorings of which none is given, or nothing to measure.
        """
        name, scoring = (asked, "") if isinstance(asked, str) else asked
        scorings = self._numbers.rows.scorings
        if scoring not in scorings and (scoring or len(scorings) != 1):
            example = f"result[{name!r}, {scorings[0]!r}]" if scorings else "none"
            raise BadInput(
                f"scorings of the run: {', '.join(scorings)}; found {scoring or 'none'!r}, expected {example}"
            )
        wanted = metric(name)
        number = self._numbers.number(wanted, self._numbers.rows.of(scoring or scorings[0]))
        if number is None:
            raise BadInput(f"the run has nothing of which {name} could be computed")
        return number

    def wrong(self, count: int = 10) -> Table:
        """List the most confident wrong answers, *count* of each scoring."""
        if count < 0:
            raise BadInput(f"wrong({count}): expected 0 or more")
        return error_table(self.folder, count)

    def _repr_html_(self) -> str:
        """Show the tables of :meth:`summary` in a notebook."""
        return self.summary()._repr_html_()

    def summary(self, by: Sequence[str] = ()) -> Summary:
        """Compute accuracy, ranks and confidence with intervals.

        :param by: e.g. "relation", "cardinality", "template", "popularity", "answer_triples:5".
        """
        return self._numbers.summary(by)

    def consistency(self, over: str = "template") -> Table:
        """Compare the answers to one fact between each two templates, or values of another key, such as "language".

        See :mod:`fathom.results.answers`: RankC, and how often the first answers agree.

        :raises BadInput: the queries have no such key.
        """
        return consistency_table(self.folder, over, self.cluster)

    @property
    def keys(self) -> list[str]:
        """Keys for :meth:`summary`."""
        return self._numbers.keys

    @cached_property
    def _numbers(self) -> RunNumbers:
        return RunNumbers(self.folder, self.cluster)

    def is_complete(self) -> bool:
        """Return whether all shards are finished; of a run with ``part=…``, some may not be."""
        return self.folder.is_complete()

    def keep_metrics(self) -> Result:
        """Write ``metrics.json`` into the folder of a finished run."""
        if self.is_complete():
            write_json(self.folder.path / METRICS_FILE, self._numbers.json())
        return self


def read_source(data: Source, columns: str | None = None) -> QuerySet:
    return data if isinstance(data, QuerySet) else read(data, columns)
