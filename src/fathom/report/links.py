"""Tables about link predictors."""

from __future__ import annotations

from fathom.report.tables import Table
from fathom.training.links.predict import Predictions


def predictions_table(found: Predictions) -> Table:
    """The best answers to one question."""
    rows = tuple(
        (place, answer.name, answer.id, answer.score, answer.split)
        for place, answer in enumerate(found.answers, start=1)
    )
    return Table(("", "answer", "id", found.scoring, "in the graph"), rows, found.question)
