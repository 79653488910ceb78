"""Every example in the documents runs, with small stand-ins for what a reader brings along."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from tests.real import real_model

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = ROOT / "README.md"
TUTORIALS = ROOT / "docs" / "tutorials"
OTHERS = [page for page in PAGES if page != README and page.parent != TUTORIALS]
BLOCK = re.compile(r"^```(sh|python|yaml)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
WRITTEN = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#]+)")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder in which "gpt2", "path/to/BEAR", "my-facts" and "my-popular-facts" are there, small."""
    from fathom.data.formats import EMBEDDED
    from tests.build.test_build_cloze import texts_to_build_from
    from tests.cli.test_cli import gpt2, save
    from tests.data.test_data import bear_folder, instance
    from tests.probes.test_chat import dressed

    folder = tmp_path_factory.mktemp("desk")
    save(folder / "gpt2", gpt2())
    chat = save(folder / "my-chat-model", gpt2())
    dressed(AutoTokenizer.from_pretrained(chat)).save_pretrained(chat)
    (folder / "path" / "to").mkdir(parents=True)
    bear_folder(folder / "path" / "to" / "BEAR", [instance(), instance(sub_label="Oman"), instance(sub_label="Laos")])
    facts = (EMBEDDED["geography"] / "facts.jsonl").read_text(encoding="utf-8").splitlines()[:8]
    (folder / "my-facts").mkdir()
    (folder / "my-facts" / "facts.jsonl").write_text("\n".join(facts), encoding="utf-8")
    lines = (EMBEDDED["geography"] / "relations.jsonl").read_text(encoding="utf-8").splitlines()
    # Without questions, for which two subjects are too few examples.
    relations = "\n".join(json.dumps({**json.loads(line), "questions": []}) for line in lines)
    (folder / "my-facts" / "relations.jsonl").write_text(relations, encoding="utf-8")
    (folder / "my-popular-facts").mkdir()
    counted = [json.loads(line) | {"groups": {"popularity": str(7**n)}} for n, line in enumerate(facts)]
    (folder / "my-popular-facts" / "facts.jsonl").write_text("\n".join(map(json.dumps, counted)), encoding="utf-8")
    (folder / "my-popular-facts" / "relations.jsonl").write_text(relations, encoding="utf-8")
    (folder / "my-graph").mkdir()
    animals = ["canine", "feline", "bird", "fish", "horse", "cattle"]
    for split, numbers in {"train": (0, 2), "test": (1,)}.items():
        lines = [f"{kind} {number}\thypernym\t{kind}\n" for kind in animals for number in numbers]
        (folder / "my-graph" / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    texts_to_build_from(folder)
    _both_readings(folder)
    _before_and_after(folder)
    shutil.copytree(ROOT / "docs" / "examples", folder, dirs_exist_ok=True)
    return folder


def _before_and_after(folder: Path) -> None:
    """A model that was edited, the page's own facts, and runs of two models with three seeds each."""
    from tests.answerers import EVEN, answered, at_random, world
    from tests.cli.test_cli import gpt2, save

    for name in (f"{model}-{seed}" for model in "ab" for seed in range(3)):
        answered(folder / "runs" / name, at_random(sum(name.encode())), world(EVEN), model=name)

    save(folder / "gpt2-edited", gpt2(n_inner=24))
    (folder / "my-edits").mkdir()
    page = (ROOT / "docs" / "howto" / "before-after.md").read_text(encoding="utf-8")
    (folder / "my-edits" / "facts.jsonl").write_text(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1], "utf-8")
    kinds = {"capital": "The capital of [X] is [Y].", "capital of": "[X] is the capital of [Y]."}
    lines = [json.dumps({"relation": name, "templates": [text]}) for name, text in kinds.items()]
    (folder / "my-edits" / "relations.jsonl").write_text("\n".join(lines), encoding="utf-8")


def _both_readings(folder: Path) -> None:
    """What the comparison of templates with natural sentences needs: a masked model, and facts that have both."""
    from tests.cli.test_cli import bert, save

    answers = {"France": "Paris", "Japan": "Tokyo", "Peru": "Lima", "Chad": "Lome"}
    lists = [*(ROOT / "docs" / "examples").glob("town*"), folder / "chemicals.tsv", folder / "genes.txt"]
    named = [file.read_text(encoding="utf-8") for file in lists]
    save(folder / "bert", bert(640), *named, *answers, *answers.values(), "Iran Spain Asia Europe")
    facts = [
        {"subject": subject, "relation": "capital", "answer": answer, "sentences": [f"{subject} is ruled from [Y]."]}
        for subject, answer in answers.items()
    ]
    (folder / "my-field").mkdir()
    (folder / "my-field" / "facts.jsonl").write_text("\n".join(map(json.dumps, facts)), encoding="utf-8")
    relation = {"relation": "capital", "templates": ["The capital of [X] is [Y]."]}
    (folder / "my-field" / "relations.jsonl").write_text(json.dumps(relation), encoding="utf-8")
    (folder / "more.txt").write_text("Oslo\nCairo\n", encoding="utf-8")
    (folder / "groups.csv").write_text("model,group\nbert,masked\ngpt2,causal\n", encoding="utf-8")
    trex = folder / "path" / "to" / "TREx"
    trex.mkdir()
    lines = [
        {
            "uuid": str(number),
            "predicate_id": "P30",
            "sub_uri": f"Q{number}",
            "sub_label": subject,
            "obj_uri": answer,
            "obj_label": answer,
            "evidences": [{"masked_sentence": f"{subject} is in [MASK].", "obj_surface": answer}],
        }
        for number, (subject, answer) in enumerate({"Iran": "Asia", "Spain": "Europe"}.items())
    ]
    (trex / "P30.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    template = {"relation": "P30", "template": "[X] is in [Y] ."}
    (trex / "relations.jsonl").write_text(json.dumps(template), encoding="utf-8")


def _of_stand_ins(words: list[str]) -> list[str]:
    """What is typed besides: small stand-ins answer in seconds; 200 countries, and models of the usual size, would
    not."""
    if words[1:3] == ["probe", "statement"] and "--limit" not in words and "geography" in words:
        return ["--limit", "20"]
    return ["--layers", "1", "--hidden-size", "16", "--heads", "2"] if words[1:3] == ["kgc", "pretrain"] else []


@pytest.mark.slow
def test_the_readme_prints_what_it_shows(desk, monkeypatch, capsys):
    """With the run of ``fathom demo``, and a stand-in for "gpt2"."""
    from fathom.plans.demo import MODEL

    real_model(MODEL)
    monkeypatch.chdir(desk)
    run_block(README, "sh", "fathom demo", monkeypatch)
    run_page(README, monkeypatch, capsys, _of_stand_ins)


@pytest.mark.slow
@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.name)
def test_examples_run(page, desk, monkeypatch):
    monkeypatch.chdir(desk)
    for language, block, _ in BLOCK.findall(page.read_text(encoding="utf-8")):
        run_block(page, language, block, monkeypatch, _of_stand_ins)


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted(TUTORIALS.glob("*.md")), ids=lambda page: page.name)
def test_tutorials_print_what_they_show(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FATHOM_DATA", raising=False)
    run_page(page, monkeypatch, capsys)


def run_page(page, monkeypatch, capsys, more=lambda words: []):
    """Run a page and compare each ``text`` block with what the block before it prints.

    ``FATHOM_DOCS=write`` replaces the shown output by what is printed.
    """
    written = text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        language, block, shown = match.groups()
        capsys.readouterr()
        run_block(page, language, block, monkeypatch, more)
        if shown is None:
            continue
        printed = excerpt(capsys.readouterr().out, shown)
        if WRITE:
            written = written.replace(match[0], match[0].replace(f"```text\n{shown}", f"```text\n{printed}"))
        else:
            assert agree(shown, printed), f"{page.name} shows\n{shown}\nbut this is printed:\n{printed}"
    if written != text:
        page.write_text(written, encoding="utf-8")


def run_block(page, language, block, monkeypatch, more=lambda words: []):
    """Run a block of a page. :param more: arguments to add to a command."""
    from fathom.cli import main

    if language == "yaml":
        if named := re.match(r"# (\S+\.yaml)\n", block):
            Path(named[1]).write_text(block, encoding="utf-8")
        return
    if language == "python":
        exec(compile(block, str(page), "exec"), {})
        return
    for name, content in WRITTEN.findall(block):
        Path(name).write_text(content, encoding="utf-8")
    for line in WRITTEN.sub("", block).strip().replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        assert words[0] == "fathom", f"{page.name}: what a reader types begins with fathom: {line}"
        monkeypatch.setattr(sys, "argv", [*words, *more(words)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code in (0, None), line


WRITE = os.environ.get("FATHOM_DOCS") == "write"
NUMBER = re.compile(r"[+−-]?\d[\d,]*(?:\.\d+)?%?")
DIGEST = re.compile(r"@[0-9a-f]{16}")


def excerpt(printed, shown):
    """Return the lines of *printed* that a page shows. "…" stands for lines that it does not show; as many follow as on
    the page, from the next one that equals the page's next line but for numbers."""
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    if "…\n" not in shown:
        return "".join(f"{line}\n" for line in lines)
    kept, start = [], 0
    for number, part in enumerate(shown.split("…\n")):
        wanted = part.splitlines()
        if number and wanted:
            first = NUMBER.sub("#", wanted[0])
            start = next(n for n, line in enumerate(lines) if n >= start and NUMBER.sub("#", line) == first)
        kept.append("".join(f"{line}\n" for line in lines[start : start + len(wanted)]))
        start += len(wanted)
    return "…\n".join(kept)


def agree(shown, printed):
    """Compare words and whole numbers exactly, decimals within 0.1, or 5 above 1 and for shares: models trained on
    another processor differ a little."""
    shown, printed = (DIGEST.sub("", text) for text in (shown, printed))
    words = [re.sub(r"[\s─]+", " ", NUMBER.sub("#", text)) for text in (shown, printed)]
    return words[0] == words[1] and all(map(_near, NUMBER.findall(shown), NUMBER.findall(printed)))


def _near(first, second):
    if "." not in first + second and "%" not in first:
        return first == second
    one, other = (float(text.replace(",", "").replace("−", "-").rstrip("%")) for text in (first, second))
    return math.isclose(one, other, abs_tol=5 if "%" in first or max(abs(one), abs(other)) > 1 else 0.1)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_diagram_of_packages_is_current():
    from tests.architecture import PAGE, diagram

    assert diagram() in PAGE.read_text(encoding="utf-8"), "run: python -m tests.architecture"


BENCHMARK = re.compile(r"benchmarks/(?:run\.py\s+([a-z][a-z-]+)|(\w+)\.py)")


def test_benchmarks_that_are_cited_exist():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    listed = importlib.import_module("run").benchmarks()
    files = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "Makefile", *(ROOT / "src").rglob("*.py")]
    for file in files:
        for name, script in BENCHMARK.findall(file.read_text(encoding="utf-8")):
            assert (name or script) in {*listed, "run"}, f"{file.name} cites the benchmark {name or script}"


def test_mutation_changes_modules_that_exist():
    tables = (ROOT / "benchmarks" / "mutation.py").read_text(encoding="utf-8")
    modules = re.findall(r"\b(fathom(?:_kgc|_build)?(?:/\w+)+)", tables.partition("TESTS = {")[2].partition("SLOW")[0])
    assert len(modules) > 40
    assert [module for module in modules if not (ROOT / "src" / f"{module}.py").is_file()] == []


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda file: file.stem)
def test_benchmarks_import_what_exists(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("fathom", "tests")):
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                there = hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}")
                assert there, f"{file.name}:{node.lineno}: {node.module} has no {name}"
