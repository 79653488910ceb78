"""Tables about link predictors."""

from __future__ import annotations

from fathom.links.predict import Predictions
from fathom.results.tables import Table


def predictions_table(found: Predictions) -> Table:
    """The best answers to one question."""
    rows = tuple(
        (place, answer.name, answer.id, answer.score, answer.split)
        for place, answer in enumerate(found.answers, start=1)
    )
    return Table(("", "answer", "id", found.scoring, "in the graph"), rows, found.question)
