"""Link predictors: one file per kind. This table is their list; a kind's own module is loaded when it is used.

Another package adds a kind by an entry point of the group ``fathom.links``, a script by ``LINKS.add``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fathom.doors import Door
from fathom.errors import BadInput
from fathom.links.presets import preset
from fathom.options import parse_options

if TYPE_CHECKING:
    from fathom.links.base import Predictor
    from fathom.links.options import LinkTraining


class Kind(NamedTuple):
    """How a kind of link predictor enters the table.

    :param options_at: where its options model is, as "module:Name".
    :param predictor_at: where its class is, likewise (:class:`fathom.links.base.Predictor` says what it has).
    :param does: one line for ``--help``.
    :param begins_with: the kind of model that ``fathom kgc pretrain`` makes for it to begin with; None for none.
    """

    name: str
    options_at: str
    predictor_at: str
    does: str
    begins_with: Literal["masked", "causal", "t5", "bart"] | None = None

    @property
    def options(self) -> type[LinkTraining]:
        """The model that its options are checked against."""
        return resolve_name(self.options_at)  # type: ignore[no-any-return]

    def parse(self, model: str, given: Mapping[str, Any]) -> Any:
        """Its options.

        :param model: as the user named it, which tells PyKEEN's models apart.
        :param given: options, which win over those of a ``preset`` named among them.
        :raises BadInput: unknown options, or values out of range; no such preset of this kind.
        """
        said = dict(given)
        name = said.pop("preset", None)
        before = {} if name is None else preset(name, self.name)
        named = {"model": model} if "model" in self.options.model_fields else {}
        return parse_options(self.options, {**before, **said, **named})

    def load(self) -> type[Predictor]:
        """The class, to be called with graph, options, source and device."""
        return resolve_name(self.predictor_at)  # type: ignore[no-any-return]


_OPTIONS = "fathom.links.options"
PYKEEN = Kind(
    "pykeen",
    f"{_OPTIONS}:Embedding",
    "fathom.links.embedding:Predictor",
    "a knowledge graph embedding of PyKEEN",
)
"""Every name that is not in the table is that of a PyKEEN model."""
LINKS: Door[Kind] = Door(
    "link predictor",
    "fathom.links",
    (
        PYKEEN,
        Kind(
            "simkgc",
            f"{_OPTIONS}:SimKgc",
            "fathom.links.simkgc:Predictor",
            "two text encoders trained by contrast",
            begins_with="masked",
        ),
        Kind(
            "knn-kge",
            f"{_OPTIONS}:KnnKge",
            "fathom.links.knn_kge:Predictor",
            "masked entity prediction with nearest neighbours",
            begins_with="masked",
        ),
        Kind(
            "kg-bert",
            f"{_OPTIONS}:KgBert",
            "fathom.links.kg_bert:Predictor",
            "an encoder that reads whole triples and tells right from wrong",
            begins_with="masked",
        ),
        Kind(
            "kgt5",
            f"{_OPTIONS}:Kgt5",
            "fathom.links.kgt5:Predictor",
            "an encoder-decoder that writes the entity's name",
            begins_with="t5",
        ),
        Kind(
            "genkgc",
            f"{_OPTIONS}:GenKgc",
            "fathom.links.genkgc:Predictor",
            "an encoder-decoder shown triples of the relation",
            begins_with="bart",
        ),
        Kind(
            "prompted",
            f"{_OPTIONS}:Prompted",
            "fathom.links.prompted:Predictor",
            "a language model shown candidates and triples",
            begins_with="causal",
        ),
        Kind(
            "ultra",
            f"{_OPTIONS}:Ultra",
            "fathom.links.ultra:Predictor",
            "a graph network that reads no text and has no vector of an entity",
        ),
    ),
)


def named() -> list[Kind]:
    """All kinds with a name of their own, which is all but PyKEEN's."""
    return [kind for kind in LINKS.entries() if kind is not PYKEEN]


def find(name: str) -> Kind:
    """The kind that a name stands for.

    :param name: of a kind, as in a model folder, or what ``--model`` says: simkgc, TransE, …
    :raises BadInput: no name at all.
    """
    if not name.strip():
        known = ", ".join(kind.name for kind in named())
        raise BadInput(f"--model: expected {known} or a PyKEEN model such as TransE, found nothing")
    return LINKS.get(name) or LINKS.get(name.lower(), PYKEEN)


def name_of(options: LinkTraining) -> str:
    """Return the name of the link predictor whose options these are. :raises BadInput: there is none."""
    if isinstance(named_ := getattr(options, "model", None), str):
        return named_
    for kind in named():
        if kind.options is type(options):
            return kind.name
    raise BadInput(f"{type(options).__name__}: expected the options of a link predictor, such as SimKgc")
