"""One file per way of asking. This table is their list; a probe's own module is loaded when it is used."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, NamedTuple

from fathom.errors import BadInput
from fathom.probes.options import (
    AskingOptions,
    ChoiceOptions,
    ClozeOptions,
    EmbeddingOptions,
    EntailmentOptions,
    GenerationOptions,
    LinkOptions,
    OntologyOptions,
    StatementOptions,
    VocabularyOptions,
)


class Entry(NamedTuple):
    """:param module: where the class is. :param does: one line for ``--help``.
    :param asks: what it is put to: a language model, or a link predictor (``fathom kgc evaluate``)."""

    name: str
    alias: str
    options: type[AskingOptions]
    module: str
    does: str
    asks: Literal["language model", "link predictor"] = "language model"

    def load(self) -> Callable[..., Any]:
        return getattr(import_module(self.module), "Probe")  # type: ignore[no-any-return]  # noqa: B009


_ENTRIES = (
    Entry(
        "statement",
        "bear",
        StatementOptions,
        "fathom.probes.statement",
        "Rank the answers of a closed answer space by the (pseudo) log-likelihood of whole statements.",
    ),
    Entry(
        "embedding",
        "deer",
        EmbeddingOptions,
        "fathom.probes.embedding",
        "Rank any number of candidates by the cosine of their vectors with the question's.",
    ),
    Entry(
        "vocabulary",
        "lama",
        VocabularyOptions,
        "fathom.probes.vocabulary",
        "Rank the answers that are one token by their probability as the next or the masked token.",
    ),
    Entry(
        "cloze",
        "entity-ranking",
        ClozeOptions,
        "fathom.probes.cloze",
        "Rank entities of any number of tokens by how well they fill the masks of a sentence.",
    ),
    Entry(
        "ontology",
        "ontoprobe",
        OntologyOptions,
        "fathom.probes.ontology",
        "Rank classes and properties in the gap of ontological statements, by words or by learnt templates.",
    ),
    Entry(
        "choice",
        "multiple-choice",
        ChoiceOptions,
        "fathom.probes.choice",
        "Let a chat model, a causal or a masked one choose among a few options of each question.",
    ),
    Entry(
        "generation",
        "kamel",
        GenerationOptions,
        "fathom.probes.generation",
        "Ask few-shot questions, let the model write, and compare what it says with labels and aliases.",
    ),
    Entry(
        "link",
        "kgc",
        LinkOptions,
        "fathom.links.probe",
        "Rank all entities of a graph as head and as tail, as a trained link predictor scores them.",
        "link predictor",
    ),
)
ENTAILMENT = Entry(
    "entailment",
    "entailment",
    EntailmentOptions,
    "fathom.probes.entailment",
    "Rank what follows from premises about pseudowords.",
)
"""Asked by ``fathom study entailment`` alone, which makes its queries."""
PROBES: dict[str, Entry] = {name: entry for entry in _ENTRIES for name in (entry.name, entry.alias)}


def find(name: str) -> Entry:
    """:raises BadInput: no such probe."""
    if name not in PROBES:
        raise BadInput(f"no probe '{name}': there is {', '.join(PROBES)}")
    return PROBES[name]
