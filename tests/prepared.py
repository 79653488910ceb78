"""The presets of the five papers, small: three planted models each, data in the papers' layouts, and fewer runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from fathom.data.formats import read
from fathom.plans.kinds import PRESETS
from tests.forked import ForkedCall
from tests.papers import plant_models, write_bear, write_graph, write_ontology, write_places, write_trex
from tests.sharing import called


class Prepared(NamedTuple):
    """A preset, its models and data, before anything runs.

    :param models: kinds by name.
    :param places: folders of the data that are here, by name.
    :param file: the preset with fewer runs.
    :param lacking: data that are not here.
    """

    name: str
    root: Path
    models: Mapping[str, str]
    places: Mapping[str, Path]
    file: Path
    lacking: tuple[str, ...] = ()

    def words(self, out: Path, places: Iterable[str] | None = None) -> list[str]:
        """The command. :param places: names of the data, instead of all."""
        given = self.places if places is None else {name: self.places[name] for name in places}
        models = ",".join(str(self.root / "models" / name) for name in self.models)
        data = ",".join(f"{name}={folder}" for name, folder in given.items())
        line = ["plan", self.file, "--models", models, "--data", data, "--out", out, "--device", "cpu"]
        return [str(word) for word in line]

    def begin(
        self, out: Path, pause: float = 0.0, places: Iterable[str] | None = None, more: Iterable[str] = ()
    ) -> ForkedCall:
        """The command in a process of its own, each shard of which takes *pause* seconds longer. :param more: flags."""
        said = self.root / f"{len([*self.root.glob('*.said')])}.said"
        return ForkedCall(called, [str(self.root / "log"), str(pause), *self.words(out, places), *more], said=said)


def write_shortened(root: Path, name: str, change: Callable[[Any], None]) -> Path:
    """Write a preset with fewer runs."""
    content = yaml.safe_load(PRESETS[name].file.read_text())
    change(content)
    (root / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return root / f"{name}.yaml"


def prepare_bear(root: Path) -> Prepared:
    models = {"gpt2": "causal", "other": "causal", "bert-base-cased": "masked"}
    places = {
        "bear": write_bear(root / "bear"),
        "bear-big": write_bear(root / "bear-big", capitals=10),
        "trex": write_trex(root / "trex", subjects=5),
    }
    plant_models(root / "models", read(root / "bear"), models)
    return Prepared("bear", root, models, places, write_shortened(root, "bear", lambda content: None))


def prepare_shaier2024(root: Path) -> Prepared:
    models = {"roberta-base": "masked", "masked": "masked", "causal": "causal"}
    places = {name: write_trex(root / name, capitals=number) for name, number in (("google-re", 8), ("trex", 6))}
    plant_models(root / "models", read(write_bear(root / "planted")), models)
    lacking = "concept-net", "BioLAMA", "LIPID"
    return Prepared(
        "shaier2024", root, models, places, write_shortened(root, "shaier2024", lambda content: None), lacking
    )


SIZES = {"wn18rr": 21, "fb15k237": 12, "wikidata5m": 9}
"""Capitals of each graph, a third of which are test triples. Equal graphs would share their runs."""


def prepare_sakai2024(root: Path) -> Prepared:
    models = {"masked": "masked", "t5": "t5", "bart": "bart"}
    places = {name: write_places(root / name, capitals) for name, capitals in SIZES.items()}
    plant_models(root / "models", read(write_bear(root / "planted")), models)

    def shorten(content: Any) -> None:
        for name, data in content["data"].items():
            data["worlds"] = ["base", "anonymised-er", "fully-anonymised-erd"] if name == "wn18rr" else ["base"]
        for name, run in content["runs"].items():
            epochs = {"prompted": {}, "kgt5": {"epochs": 1}, "genkgc": {"epochs": 1}}.get(name, {"epochs": 3})
            run.update(epochs and epochs | {"batch_size": 16, "learning_rate": 0.01})

    return Prepared("sakai2024", root, models, places, write_shortened(root, "sakai2024", shorten))


def prepare_deer(root: Path) -> Prepared:
    models = {"opt-125m": "causal", "opt-350m": "causal", "own": "causal"}
    write_graph(root / "wn18rr"), write_graph(root / "fb15k237", 16, 1)
    write_bear(root / "bear")
    places = dict.fromkeys(("wn18rr", "queries"), root / "wn18rr")
    places |= {name: root / name for name in ("fb15k237", "bear")}
    write_graph(root / "planted", 18)  # names beyond these have several tokens
    templates = ("_hypernym", "[X] is a [Y] ."), ("_part", "[X] is part of [Y] .")
    lines = (f'{{"relation": "{relation}", "template": "{template}"}}\n' for relation, template in templates)
    (root / "planted" / "templates.jsonl").write_text("".join(lines))
    plant_models(root / "models", read(root / "planted"), models, unseen_templates=0)

    return Prepared("deer", root, models, places, write_shortened(root, "deer", _fewer_deer), ("YAGO3-10",))


def prepare_deer_times(root: Path) -> Prepared:
    deer = prepare_deer(root)
    places = {"triples": root / "wn18rr"}
    file = write_shortened(root, "deer-times", _fewer_deer)
    return deer._replace(name="deer-times", places=places, file=file, lacking=())


def _fewer_deer(content: Any) -> None:
    fewer = {"limit": [2, 3], "relations": ["P36", "P30"], "tail_template": ["A", "B"]}
    for run in content["runs"].values():
        run["matrix"] = {key: fewer[key] for key in run.get("matrix", {})}
        run["repeats"] = 2 if run.get("exclusive") else 1


def prepare_wu2023(root: Path) -> Prepared:
    models = {"bert-base-uncased": "masked", "other": "masked", "gpt2": "causal"}
    write_ontology(root / "ontology")
    places = {"ontology": root / "ontology", "questions": root / "ontology" / "multiple_choice"}
    whole = read(root / "ontology")
    stated = replace(whole, queries=[query for query in whole.queries if query.relation in ("type", "subClassOf")])
    plant_models(root / "models", stated, models)

    def shorten(content: Any) -> None:
        content["runs"]["learnt"]["epochs"] = 1
        for name in ("reasoning", "reasoning-causal"):
            content["studies"][name] |= {"rules": ["rdfs5", "rdfs9"], "pairs": 2, "untrained": 0, "epochs": 1}

    return Prepared("wu2023", root, models, places, write_shortened(root, "wu2023", shorten))


PREPARE: Mapping[str, Callable[[Path], Prepared]] = {
    "bear": prepare_bear,
    "shaier2024": prepare_shaier2024,
    "sakai2024": prepare_sakai2024,
    "deer": prepare_deer,
    "deer-times": prepare_deer_times,
    "wu2023": prepare_wu2023,
}
