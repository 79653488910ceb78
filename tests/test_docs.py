"""Every example in the documents runs, with small stand-ins for what a reader brings along."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!http)([^)#]+)")


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A folder in which "gpt2", "path/to/BEAR" and "my-facts" are there, small."""
    from fathom.data.formats import EMBEDDED
    from tests.test_cli import gpt2, save
    from tests.test_data import bear_folder, instance

    folder = tmp_path_factory.mktemp("desk")
    save(folder / "gpt2", gpt2())
    (folder / "path" / "to").mkdir(parents=True)
    bear_folder(folder / "path" / "to" / "BEAR", [instance(), instance(sub_label="Oman"), instance(sub_label="Laos")])
    facts = (EMBEDDED["geography"] / "facts.jsonl").read_text(encoding="utf-8").splitlines()[:8]
    (folder / "my-facts").mkdir()
    (folder / "my-facts" / "facts.jsonl").write_text("\n".join(facts), encoding="utf-8")
    relations = (EMBEDDED["geography"] / "relations.jsonl").read_text(encoding="utf-8")
    (folder / "my-facts" / "relations.jsonl").write_text(relations, encoding="utf-8")
    (folder / "my-graph").mkdir()
    animals = ["canine", "feline", "bird", "fish", "horse", "cattle"]
    lines = [f"{kind} {number}\thypernym\t{kind}\n" for kind in animals for number in range(4)]
    (folder / "my-graph" / "train.tsv").write_text("".join(lines[::2]), encoding="utf-8")
    (folder / "my-graph" / "test.tsv").write_text("".join(lines[1::2]), encoding="utf-8")
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run(page, desk, monkeypatch):
    from fathom.cli import main

    monkeypatch.chdir(desk)
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, str(page), "exec"), {})
            continue
        for line in block.strip().splitlines():
            words = shlex.split(line)
            assert words[0] == "fathom", f"{page.name}: what a reader types begins with fathom: {line}"
            # Small stand-ins answer in seconds; 200 countries would not.
            limited = words[1:3] == ["probe", "statement"] and "--limit" not in words and "geography" in words
            monkeypatch.setattr(sys, "argv", [*words, *(["--limit", "20"] if limited else [])])
            with pytest.raises(SystemExit) as stop:
                main()
            assert stop.value.code in (0, None), line


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
