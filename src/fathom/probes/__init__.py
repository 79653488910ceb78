"""The registry of probes, one module each, imported on first use.

Another package adds a probe by an entry point of the group ``fathom.probes``, a script by ``PROBES.add``.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal, NamedTuple

from fathom.base.registry import Registry

if TYPE_CHECKING:
    from fathom.probes.base import Probe
    from fathom.probes.options import EvaluationOptions


class Entry(NamedTuple):
    """A probe in the registry.

    :param options_at: place of its options model, as "module:Name".
    :param probe_at: place of its class, a subclass of :class:`fathom.probes.base.Probe`.
    :param does: one line for ``--help``.
    :param example: a valid command line, shown at the top of ``--help``.
    :param needs: a language model, or a link predictor (``fathom kgc evaluate``).
    :param cuts: the k of its Hits@k in the summary; the first is its accuracy.
    :param further: names of further metrics for its summary alone.
    :param by: names of metrics that its breakdowns show in addition to accuracy and MRR.
    :param headline: whether its summary opens with the metrics, or with a table of its tasks.
    :param way: how the model answers: candidates are ranked, an option is chosen, or the answer is generated.
    """

    name: str
    options_at: str
    probe_at: str
    does: str
    example: str
    needs: Literal["language model", "link predictor"] = "language model"
    cuts: tuple[int, ...] = (1, 5, 10)
    further: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    headline: Literal["metrics", "tasks"] = "metrics"
    way: Literal["ranked first", "chosen", "generated"] = "ranked first"

    @property
    def options(self) -> type[EvaluationOptions]:
        return resolve_name(self.options_at)  # type: ignore[no-any-return]

    def load(self) -> type[Probe]:
        return resolve_name(self.probe_at)  # type: ignore[no-any-return]


_OPTIONS = "fathom.probes.options"
PROBES: Registry[Entry] = Registry(
    "probe",
    "fathom.probes",
    (
        Entry(
            "statement",
            f"{_OPTIONS}:StatementOptions",
            "fathom.probes.statement:StatementProbe",
            "Rank the answers of a closed answer space by the (pseudo) log-likelihood of whole statements.",
            "fathom probe statement --model gpt2 --data geography --out runs/gpt2 --templates 0,1",
        ),
        Entry(
            "embedding",
            f"{_OPTIONS}:EmbeddingOptions",
            "fathom.probes.embedding:EmbeddingProbe",
            "Rank any number of candidates by the cosine of their vectors with the question's.",
            "fathom probe embedding --model gpt2 --data geography --out runs/vectors --shots 8",
        ),
        Entry(
            "vocabulary",
            f"{_OPTIONS}:VocabularyOptions",
            "fathom.probes.vocabulary:VocabularyProbe",
            "Rank the answers that are one token by their probability as the next or the masked token.",
            "fathom probe vocabulary --model bert-base-cased --data geography --out runs/words",
        ),
        Entry(
            "cloze",
            f"{_OPTIONS}:ClozeOptions",
            "fathom.probes.cloze:ClozeProbe",
            "Rank entities of any number of tokens by how well they fill the masks of a sentence.",
            "fathom probe cloze --model bert-base-cased --data geography --out runs/cloze --masks several,one",
        ),
        Entry(
            "ontology",
            "fathom.probes.options:OntologyOptions",
            "fathom.probes.ontology:OntologyProbe",
            "Rank classes and properties in the gap of ontological statements, by words or by learnt templates.",
            "fathom probe ontology --model bert-base-cased --data my-ontology --out runs/ontology --soft",
            cuts=(1, 5, 10, 25, 50),
            further=("mrr_all", "mrr_finest", "remembered"),
            headline="tasks",
        ),
        Entry(
            "choice",
            "fathom.probes.options:ChoiceOptions",
            "fathom.probes.choice:ChoiceProbe",
            "Let a chat model, a causal or a masked one choose among a few options of each question.",
            "fathom probe choice --model gpt2 --data geography --out runs/choice --options 4",
            way="chosen",
        ),
        Entry(
            "generation",
            f"{_OPTIONS}:GenerationOptions",
            "fathom.probes.generation:GenerationProbe",
            "Pose few-shot questions, let the model write, and compare its answers with labels and aliases.",
            "fathom probe generation --model gpt2 --data geography --out runs/written --shots 5",
            way="generated",
        ),
    ),
)
ENTAILMENT = Entry(
    "entailment",
    "fathom.probes.options:EntailmentOptions",
    "fathom.probes.entailment:EntailmentProbe",
    "Rank what follows from premises about pseudowords.",
    "fathom study entailment --model bert-base-cased --data my-ontology --out reasoning",
)
"""Run only by ``fathom study entailment``, which makes its queries."""
