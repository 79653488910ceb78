"""The registry of link predictors, one file per kind. A kind's module is loaded on first use.

Another package adds a kind by an entry point of the group ``fathom.links``, a script by ``LINKS.add``.
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Literal, NamedTuple

from fathom.base.errors import BadInput
from fathom.base.options import Given, parse_options
from fathom.base.reading import yaml_file
from fathom.base.registry import Registry

if TYPE_CHECKING:
    from fathom_kgc.links.base import Predictor
    from fathom_kgc.links.options import LinkTraining


class Kind(NamedTuple):
    """An entry of LINKS.

    :param options_at: its options model, as "module:Name".
    :param predictor_at: its subclass of :class:`fathom_kgc.links.base.Predictor`, likewise.
    :param does: one line for ``--help``.
    :param begins_with: the kind of model of ``fathom kgc pretrain`` that it can start from, if any.
    """

    name: str
    options_at: str
    predictor_at: str
    does: str
    begins_with: Literal["masked", "causal", "t5", "bart"] | None = None

    @property
    def options(self) -> type[LinkTraining]:
        return resolve_name(self.options_at)  # type: ignore[no-any-return]

    def complete(self, model: str, values: Given) -> Given:
        """Return options with those of a ``preset`` among them, over which the others win.

        :param model: the name that the user gave, which may be one of PyKEEN's.
        :raises BadInput: no such preset of this kind.
        """
        options = {name: value for name, value in values.items() if name != "preset"}
        defaults = preset(values["preset"], self.name) if values.get("preset") is not None else {}
        return defaults | options | ({"model": model} if "model" in self.options.model_fields else {})

    def parse(self, model: str, values: Given) -> LinkTraining:
        """Parse options, see :meth:`complete`. :raises BadInput: unknown ones, or values out of range."""
        return parse_options(self.options, self.complete(model, values))

    def load(self) -> type[Predictor]:
        return resolve_name(self.predictor_at)  # type: ignore[no-any-return]


def _kind(
    name: str,
    options: str,
    does: str,
    begins_with: Literal["masked", "causal", "t5", "bart"] | None = None,
    at: str = "",
) -> Kind:
    at = at or f"{name.replace('-', '_')}:Predictor"
    return Kind(name, f"fathom_kgc.links.options:{options}", f"fathom_kgc.links.{at}", does, begins_with)


PYKEEN = _kind("pykeen", "Embedding", "a knowledge graph embedding of PyKEEN", at="embedding:Predictor")
"""Every name that is not in the registry is that of a PyKEEN model."""
LINKS: Registry[Kind] = Registry(
    "link predictor",
    "fathom.links",
    (
        PYKEEN,
        _kind("simkgc", "SimKgc", "two text encoders trained by contrast", "masked"),
        _kind("knn-kge", "KnnKge", "masked entity prediction with nearest neighbours", "masked"),
        _kind("kg-bert", "KgBert", "an encoder that classifies whole triples as right or wrong", "masked"),
        _kind("kgt5", "Kgt5", "an encoder-decoder that writes the entity's name", "t5", "generative:Kgt5Predictor"),
        _kind(
            "genkgc", "GenKgc", "an encoder-decoder shown triples of the relation", "bart", "generative:GenKgcPredictor"
        ),
        _kind("prompted", "PromptedModel", "a language model shown candidates and triples", "causal"),
        _kind("ultra", "Ultra", "a graph network that reads no text and has no vector of an entity"),
    ),
)
PRESETS: dict[str, dict[str, Given]] = yaml_file(Path(__file__).with_name("presets.yaml"))
"""Options as in a paper, by preset and kind of predictor."""


def preset(name: object, kind: str) -> Given:
    """Return the options of one kind in a preset. :raises BadInput: no such preset, or one without this kind."""
    if not isinstance(name, str) or name not in PRESETS:
        raise BadInput(f"--preset: expected {', '.join(PRESETS)}, found {name!r}")
    if kind not in PRESETS[name]:
        raise BadInput(f"--preset {name}: has no options of {kind} models, but of {', '.join(PRESETS[name])}")
    return dict(PRESETS[name][kind])


def named() -> list[Kind]:
    """Return all kinds but PyKEEN's, whose models have names of their own."""
    return [kind for kind in LINKS.entries() if kind is not PYKEEN]


def find(name: str) -> Kind:
    """Return the kind of a name, such as simkgc or TransE. :raises BadInput: an empty name."""
    if not name.strip():
        names = ", ".join(kind.name for kind in named())
        raise BadInput(f"--model: expected {names} or a PyKEEN model such as TransE, found nothing")
    return LINKS.get(name) or LINKS.get(name.lower(), PYKEEN)


def name_of(options: LinkTraining) -> str:
    """Return the name of the link predictor whose options these are. :raises BadInput: there is none."""
    for kind in LINKS.entries():
        if kind.options is type(options):
            return kind.name if kind is not PYKEEN else options.model  # type: ignore[attr-defined]
    raise BadInput(f"{type(options).__name__}: expected the options of a link predictor, such as SimKgc")
