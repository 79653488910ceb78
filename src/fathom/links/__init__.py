"""Link predictors: one file per kind. This table is their list; a kind's own module is loaded when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from fathom.errors import BadInput
from fathom.links import options as kinds
from fathom.options import parse_options

if TYPE_CHECKING:
    from fathom.links.base import Predictor


class Kind(NamedTuple):
    """:param module: where its class ``Predictor`` is. :param does: one line for ``--help``."""

    name: str
    options: type[kinds.LinkTraining]
    module: str
    does: str

    def parse(self, model: str, given: Mapping[str, Any]) -> Any:
        """Its options. :param model: as it was named, which tells embeddings apart. :raises BadInput: wrong ones."""
        named = {"model": model} if "model" in self.options.model_fields else {}
        return parse_options(self.options, {**given, **named})

    def load(self) -> type[Predictor]:
        return import_module(self.module).Predictor  # type: ignore[no-any-return]


_ALL = (
    Kind("simkgc", kinds.SimKgc, "fathom.links.simkgc", "two text encoders trained by contrast"),
    Kind("knn-kge", kinds.KnnKge, "fathom.links.knn_kge", "masked entity prediction with nearest neighbours"),
    Kind("kgt5", kinds.Kgt5, "fathom.links.kgt5", "an encoder-decoder that writes the entity's name"),
    Kind("genkgc", kinds.GenKgc, "fathom.links.genkgc", "an encoder-decoder shown triples of the relation"),
    Kind("prompted", kinds.Prompted, "fathom.links.prompted", "a language model shown candidates and triples"),
)
KINDS = {kind.name: kind for kind in _ALL}
EMBEDDING = Kind("pykeen", kinds.Embedding, "fathom.links.embedding", "a knowledge graph embedding of PyKEEN")
"""Every other name is that of a PyKEEN model."""


def find(name: str) -> Kind:
    """:param name: of a kind, as in a model folder, or what ``--model`` says: simkgc, TransE, …"""
    if name.lower() in KINDS:
        return KINDS[name.lower()]
    if not name.strip():
        raise BadInput(f"--model: expected {', '.join(KINDS)} or a PyKEEN model such as TransE, found nothing")
    return EMBEDDING
