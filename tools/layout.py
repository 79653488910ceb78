"""Rename modules: ``python tools/layout.py`` moves the files of MOVES and mends their names; again, it does nothing.

It turned one package into three (``fathom``, ``fathom_build``, ``fathom_kgc``). Code and documents that use old names
are mended in the same way: ``python tools/layout.py FILE …`` changes these files alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOVES = {
    # What `fathom data` and `fathom model` write.
    "fathom.building.fetch": "fathom.data.fetch",
    "fathom.building.fetch_pubmed": "fathom.data.fetch_pubmed",
    "fathom.building.fetch_model": "fathom.data.fetch_model",
    "fathom.building.sample": "fathom.data.sample",
    "fathom.building.examples": "fathom.data.fetch",
    # Make data sets.
    "fathom.building": "fathom_build",
    "fathom.cli.build": "fathom_build.command",
    # Complete knowledge graphs.
    "fathom.cli.kgc": "fathom_kgc.command",
    "fathom.plans.links": "fathom_kgc.plan",
    "fathom.studies.memory": "fathom_kgc.studies.memory",
    "fathom.studies.memory_tables": "fathom_kgc.studies.memory_tables",
    "fathom.studies.memory_slope": "fathom_kgc.studies.memory_slope",
    "fathom.training.pretraining.objectives": "fathom.training.small",
    "fathom.training.pretraining": "fathom_kgc.pretraining",
    "fathom.links": "fathom_kgc.links",
    # Rooms of `fathom`, in the order of the data flow.
    "fathom.errors": "fathom.base.errors",
    "fathom.options": "fathom.base.options",
    "fathom.registry": "fathom.base.registry",
    "fathom.progress": "fathom.base.progress",
    "fathom.processes": "fathom.base.processes",
    "fathom.reading": "fathom.base.reading",
    "fathom.formats": "fathom.data.formats",
    "fathom.prompts": "fathom.data.prompts",
    "fathom.models": "fathom.engine.models",
    "fathom.scoring": "fathom.engine.scoring",
    "fathom.metrics": "fathom.results.metrics",
    "fathom.run": "fathom.probes.run",
    "fathom.report": "fathom.studies.report",
    # Public names.
    "fathom.evaluate_links": "fathom_kgc.evaluate_links",
    "fathom.train_links": "fathom_kgc.train_links",
}
"""Old module → new module; of several that fit a name, the longest decides."""
TESTS = {
    "base": "pieces progress reading registry spelling",
    "store": "in_use references resume work outputs foreign_files",
    "data": "data directions edits export fact_checks fact_table fetch fetch_model import knowledge leakage lama "
    "published_sets reversal sample seen tables types unread",
    "engine": "ahead beginnings causal device_map encoder evidence families folders gguf head hub kept_tokens "
    "last_layer levels likelihoods limits loading masked memory mentions parity precision reduction "
    "scored_text search seq2seq server shuffling tokenizer_checks tokens trie rows real_models",
    "results": "baselines by_number checking ci claims claims_table compare diff discrimination edges estimates "
    "frequency metrics metrics_table positions result samples settled_mistakes significance task_means "
    "uncertainty",
    "training": "loop plant_design planting planting_sentences",
    "probes": "chat choice choice_asking choice_replies cloze contract embedding entailment entailment_causal "
    "entailment_chat entailment_folds forecast generation graph_statement ontology ontology_closure "
    "ontology_finest ontology_folds ontology_nonce ontology_omissions parts ray registry_probe vocabulary",
    "studies": "approaches axioms chains controls reasoning report report_browser report_page robustness serve studies "
    "study_calibration study_clusters study_contract study_items study_profile study_validity",
    "plans": "controls_planned plans presets presets_cells validate watch",
    "cli": "cli cli_help config demo shown typing golden",
    "build": "bear_parts build_bear build_cloze cloze_inputs cloze_ngrams cloze_quality ontology_build "
    "ontology_entailed worlds worlds_audit",
    "kgc": "controls_memory forecast_links grid links links_generative links_kg_bert links_knn_kge links_presets "
    "links_prompted links_pykeen links_simkgc links_ultra memory_slope pretraining registry_link simkgc_files",
    "documents": "docs release site toys",
}
"""Room → its modules of tests."""
MOVES |= {f"tests.test_{name}": f"tests.{room}.test_{name}" for room, names in TESTS.items() for name in names.split()}
FILES = {
    "src/fathom/building/models.yaml": "src/fathom/data/models.yaml",
    "src/fathom/plans/presets/sakai2024.yaml": "src/fathom_kgc/presets/sakai2024.yaml",
    "src/fathom/plans/presets/sakai2024.csv": "src/fathom_kgc/presets/sakai2024.csv",
}
"""Other files that moved alone."""
NAMES = {
    ("fathom_build.options", "fathom.data.options"): "BuildOptions Day Device ExamplesOptions FetchModelOptions "
    "FetchOptions Graph GraphArgument NewFolder Random SampleOptions last_day",
    ("fathom.studies.options", "fathom_kgc.studies"): "MemoryOptions",
    ("fathom.training.options", "fathom_kgc.pretraining.options"): "PretrainOptions",
}
"""(Module, other module) → names that moved from one to the other."""
GROUPS = "builders formats links metrics probes studies"
"""Groups of entry points, which keep their names."""
KEPT = {"tools/layout.py", "tests/base/test_layout.py", "CHANGELOG.md"}
"""Files that name old places on purpose."""
TEXTS = {".md", ".py", ".pyi", ".sh", ".toml", ".yaml", ".yml"}

_MODULE = re.compile(
    r"(?<![\w.])(?P<name>" + "|".join(re.escape(name) for name in sorted(MOVES, key=len, reverse=True)) + r")\b"
)
_PATH = re.compile(
    r"(?<![\w.-])(?P<source>src/)?(?P<name>"
    + "|".join(re.escape(name.replace(".", "/")) for name in sorted(MOVES, key=len, reverse=True))
    + r")(?=/|\.py\b)"
)
_ROOM = re.compile(r"^(?P<indent> *)from fathom import (?P<names>[\w, ]+)$", re.MULTILINE)
_IMPORT = re.compile(r"^(?P<indent> *)from (?P<module>[\w.]+) import (?P<names>\((?:[^)]*)\)|[^\n(]+)$", re.MULTILINE)


def move_files() -> None:
    """Move modules and packages, unless they have moved."""
    for old, new in FILES.items():
        _move(ROOT / old, ROOT / new)
    for old, new in MOVES.items():
        root = ROOT if old.startswith("tests.") else ROOT / "src"
        place, target = root / old.replace(".", "/"), root / new.replace(".", "/")
        if place.is_dir():
            _move(place, target)
        if place.with_suffix(".py").exists():
            _move(place.with_suffix(".py"), target.with_suffix(".py"))
            if root is ROOT:
                _deepen(target.with_suffix(".py"))


def _deepen(file: Path) -> None:
    """Mend the paths in a module of tests that lies one folder deeper now."""
    (file.parent / "__init__.py").touch()
    text = file.read_text(encoding="utf-8")
    text = text.replace("parents[1]", "parents[2]").replace("Path(__file__).parent /", "Path(__file__).parents[1] /")
    file.write_text(text, encoding="utf-8")


def _move(old: Path, new: Path) -> None:
    if old.exists():
        new.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "mv", str(old), str(new)], cwd=ROOT, check=True)


def mended(text: str) -> str:
    """Return a text with the new names of modules, paths and imported names."""
    text = _ROOM.sub(_of_room, text)
    before = text
    text = _MODULE.sub(_of_module, text)
    text = _PATH.sub(_of_path, text)
    if "fathom_kgc." in text and "fathom_kgc." not in before:
        text = re.sub(r"^import fathom$", "import fathom\nimport fathom_kgc", text, count=1, flags=re.MULTILINE)
    return _IMPORT.sub(_of_import, text)


def _of_room(match: re.Match[str]) -> str:
    """Divide an import of rooms and names of ``fathom`` by where they are now."""
    found: dict[str, list[str]] = {}
    for name in (name.strip() for name in match["names"].split(",")):
        first, _, alias = name.partition(" as ")
        new = MOVES.get(f"fathom.{first}", f"fathom.{first}")
        room, _, last = new.rpartition(".")
        found.setdefault(room, []).append(f"{last} as {alias}" if alias else last)
    return "\n".join(f"{match['indent']}from {room} import {', '.join(names)}" for room, names in found.items())


def _of_module(match: re.Match[str]) -> str:
    before, after = match.string[: match.start()][-1:], match.string[match.end() :][:1]
    is_quoted = before + after in ('""', "``", "[]")
    is_group = is_quoted and match["name"].removeprefix("fathom.") in GROUPS.split()
    return match["name"] if is_group else MOVES[match["name"]]


def _of_path(match: re.Match[str]) -> str:
    new = MOVES[match["name"].replace("/", ".")].replace(".", "/")
    return f"{match['source'] or ''}{new}"


def _of_import(match: re.Match[str]) -> str:
    """Divide an import whose names have moved in part."""
    for (old, new), moved in NAMES.items():
        if match["module"] == old:
            names = [name for name in re.split(r"[\s,()]+", match["names"]) if name]
            parts = {
                old: [name for name in names if name not in moved.split()],
                new: [name for name in names if name in moved.split()],
            }
            return "\n".join(
                f"{match['indent']}from {module} import {', '.join(names)}" for module, names in parts.items() if names
            )
    return match[0]


def tracked() -> Iterable[Path]:
    """Yield the repository's own texts, but those of KEPT."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        file = ROOT / name
        if (file.suffix in TEXTS or name == "Makefile") and name not in KEPT:
            yield file


def main() -> None:
    """Rename, then sort and wrap the imports."""
    named = [Path(name) for name in sys.argv[1:]]
    if not named:
        move_files()
    changed = []
    for file in named or tracked():
        if not file.is_file():
            sys.exit(f"{file} is no file")
        before = file.read_text(encoding="utf-8")
        after = mended(before)
        if after != before:
            file.write_text(after, encoding="utf-8")
            changed.append(str(file))
    code = [name for name in changed if name.endswith(".py")]
    if code and not named:  # the repository's own
        for command in (["check", "-q", "--select", "I", "--fix"], ["format", "-q"]):
            subprocess.run([sys.executable, "-m", "ruff", *command, *code], cwd=ROOT, check=False)
    print(f"{len(changed)} files changed")


if __name__ == "__main__":
    main()
