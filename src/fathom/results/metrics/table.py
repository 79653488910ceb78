"""The table METRICS of all metrics, a line each.

A metric has a *step*, which gives each prediction one value (or several), and a *fold*, which makes one number of the
means of these values. :mod:`fathom.results.estimates` does everything else, which is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from fathom.base.registry import Registry
from fathom.results.metrics.confidence import Floats, calibration_gaps, cautious_sum, debiased_sum
from fathom.results.metrics.ranking import harmonic_mean

SHARE, FROM_ONE = (0.0, 1.0), (1.0, float("inf"))
"""Limits of shares, and of ranks and perplexities."""


class Ranking(Protocol):
    """Ranks of right answers, an entry per prediction, shape (n), NaN where there is none."""

    def hits(self, k: int) -> Floats: ...

    def reciprocal(self) -> Floats: ...


Step = Callable[[Any], "Floats | tuple[Floats, ...]"]
"""Takes the arrays of :class:`fathom.results.rows.Rows`; returns shape (n), NaN without a number."""


@dataclass(frozen=True)
class Metric:
    """One number of a run.

    :param name: as typed, printed and stored, such as "hits@5".
    :param about: what it is, with formula and source, for ``fathom metrics --list``.
    :param step: values of each prediction, NaN without one; several for a number such as F1.
    :param shown: display format.
    :param limits: smallest and largest possible value.
    :param fold: function of the means of the step's values; None for the mean itself.
    :param mean_over: templates (the mean over templates of each template's mean), queries (each averaged) or
        predictions.
    :param partial: None if one scored prediction without a value makes the number undefined (the mean of the others
        would flatter). Else those without one are excluded, and a note counts the rest by this word, unless empty.
    :param prepare: transforms the values of the predictions, shape (columns, n).
    :param error_folds: in place of a fold, two that take the means and, as ``errors``, their standard errors: one for
        the number and the upper end of its interval, one for the lower end.
    :param further: shown only for probes that declare it.
    :param has_baselines: compared with baselines; its step uses ``hits`` and ``reciprocal`` alone.
    """

    name: str
    step: Step
    shown: str = ".4f"
    limits: tuple[float, float] = SHARE
    fold: Callable[..., Floats] | None = None
    mean_over: Literal["templates", "queries", "predictions"] = "templates"
    partial: str | None = None
    prepare: Callable[..., Floats] | None = None
    error_folds: tuple[Callable[..., Floats], Callable[..., Floats]] | None = None
    further: bool = False
    has_baselines: bool = False
    about: str = ""

    def columns(self, items: Ranking) -> tuple[Floats, ...]:
        """Return the step's values, shape (n) each. :param items: rows, or ranks if it needs these alone."""
        values = self.step(items)
        return values if isinstance(values, tuple) else (values,)


def hits(k: int) -> Metric:
    """Return Hits@k; accuracy is Hits@1."""
    about = f"share of queries with a right answer among the best {k}; ties: expected under random order"
    return Metric(f"hits@{k}", lambda items: items.hits(k), ".1%", has_baselines=True, about=about)


def perplexity(log_prob: Floats, tokens: Floats) -> Floats:
    """Return exp(−log-probability / tokens), shape (n); of means over prompts it is the corpus perplexity.

    For masked models it is the pseudo-perplexity of Salazar et al. (2020), as in section 5.5 of Shaier et al. (2024).
    """
    return np.exp(-log_prob / tokens)


def first_of_finest(rank: Floats) -> Floats:
    """Return whether the finest gold answer is before all wrong ones, shape (n); NaN without a rank."""
    return np.where(np.isnan(rank), np.nan, rank <= 1)


def _prompts(items: Any) -> tuple[Floats, Floats]:
    return items.prompt_log_prob, items.prompt_tokens


_BY_PROMPT: tuple[Literal["predictions"], str] = ("predictions", "prompts")
_MRR = Metric(
    "mrr",
    lambda items: items.reciprocal(),
    has_baselines=True,
    about="mean of 1 / rank of the best right answer, others filtered; ties: expected under random order",
)
METRICS: Registry[Metric] = Registry(
    "metric",
    "fathom.metrics",
    (
        Metric(
            "accuracy", lambda items: items.hits(1), ".1%", has_baselines=True,
            about="share of right first answers, hits@1; of written answers, share of right ones",
        ),
        _MRR,
        Metric(
            "mrr_all", lambda items: items.reciprocal_of_all(), further=True,
            about="mean of 1 / mean rank of all right answers (MRRa, Wu et al. 2023)",
        ),
        Metric(
            "mrr_finest", lambda items: items.reciprocal_of_finest(), further=True,
            about="mean of 1 / rank of the finest right answer in the hierarchy",
        ),
        Metric(
            "remembered", lambda items: first_of_finest(items.finest_rank), ".1%", further=True,
            about="share of queries whose finest right answer is before all wrong ones",
        ),
        Metric(
            "mean_rank", lambda items: items.rank, ".2f", FROM_ONE,
            about="mean rank of the best right answer, from 1",
        ),
        Metric(
            "precision", lambda items: items.precision, ".1%",
            about="share of written answers that are right (KAMEL, Kalo and Fichtel 2022)",
        ),
        Metric(
            "recall", lambda items: items.recall, ".1%",
            about="share of right answers that are written (KAMEL, Kalo and Fichtel 2022)",
        ),
        Metric(
            "confidence", lambda items: items.confidence.top_probability, partial="",
            about="mean max p, p: softmax of the scores over the candidates (Wiland et al. 2024, appendix D)",
        ),
        Metric(
            "margin", lambda items: items.confidence.margin, partial="",
            about="mean of the best p less the second (Wiland et al. 2024, appendix D)",
        ),
        Metric(
            "uncertainty", lambda items: items.confidence.uncertainty, partial="",
            about="mean entropy of p / log N: 0 certain, 1 uniform (Wiland et al. 2024, eq. 1 to 3)",
        ),
        Metric(
            "brier", lambda items: items.confidence.brier, partial="",
            about="mean over candidates of (p − y)², y: 1 if right (Brier 1950)",
        ),
        Metric(
            "f1", lambda items: (items.precision, items.recall), ".1%", fold=harmonic_mean,
            about="harmonic mean of precision and recall",
        ),
        Metric(
            "consistency", lambda items: items.agreeing(), ".1%", mean_over="queries", partial="",
            about="share of queries whose templates all give the same first answer",
        ),
        Metric(
            "perplexity", lambda items: perplexity(*_prompts(items)), ".2f", FROM_ONE, None, *_BY_PROMPT,
            about="mean over prompts of exp(−log p / tokens); masked: pseudo-perplexity (Salazar et al. 2020)",
        ),
        Metric(
            "corpus_perplexity", _prompts, ".2f", FROM_ONE, perplexity, *_BY_PROMPT,
            about="exp(−Σ log p / Σ tokens) over all prompts (Shaier et al. 2024, section 5.5)",
        ),
        Metric(
            "ece", lambda items: (items.confidence.top_probability, items.hits(1)), partial="",
            prepare=calibration_gaps, error_folds=(debiased_sum, cautious_sum),
            about="expected calibration error: Σ |confidence − accuracy| of bins by their share, without its bias",
        ),
    ),
)  # fmt: skip
_HITS = re.compile(r"hits@([1-9]\d*)", re.IGNORECASE)


def metric(name: str) -> Metric:
    """Find a metric by name, "hits@k" for any k. :raises BadInput: there is none."""
    cut = _HITS.fullmatch(name)
    return hits(int(cut[1])) if cut else METRICS.find(name)
