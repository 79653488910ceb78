"""Build the documentation site into build/docs/site: ``make docs``. Any warning and any broken link is an error.

Pages are copied to build/docs/pages, generated ones are added, and Zensical renders them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE, ROOT = Path(__file__).resolve().parent, Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FROM_ROOT = {ROOT / f"{name}.md": f"{name.lower()}.md" for name in ("CONTRIBUTING", "SECURITY", "CHANGELOG")}
FROM_ROOT[ROOT / "README.md"] = "index.md"
"""Pages outside docs/ → their name on the site."""
TABS = {
    "Home": ["index.md"],
    "Tutorials": ["tutorials/*.md"],
    "How-to guides": ["howto/*.md"],
    "Methods": ["methods/*.md"],
    "Reference": ["commands.md", "run-folder.md", "data-format.md", "glossary.md"],
    "Command line": ["reference/cli/*.md"],
    "Python": ["reference/python/*.md"],
    "Results": ["results/*.md", "papers.md", "benchmarks.md", "notes/*.md"],
    "Help": ["faq.md", "pitfalls.md", "coming-from.md", "citing.md", "security.md"],
    "Development": ["architecture.md", "contributing.md", "changelog.md", "decisions/*.md"],
}
"""Tab → its pages, in order; those of a pattern by name. A page without a tab is an error."""
UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Before notes: their words are those of the how-tos, which a search should find."""
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
LIST = re.compile(r"(?:[-*]|\d+\.) ")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def stage(pages: Path) -> None:
    """Copy the pages, and the files that they show or link to."""
    for file in [*DOCS.rglob("*"), *FROM_ROOT]:
        if file.is_dir() or HERE in file.parents or "__pycache__" in file.parts:
            continue
        target = pages / FROM_ROOT[file] if file in FROM_ROOT else pages / file.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix == ".md":
            header = UNSEARCHED if file.parent == DOCS / "notes" else ""
            target.write_text(header + _for_site(file, DOCS / target.relative_to(pages)), encoding="utf-8")
        else:
            shutil.copy(file, target)
    shutil.copy(HERE / "site.css", pages)


def _for_site(file: Path, place: Path) -> str:
    """Return a page with links and lists as the site's Markdown wants them.

    :param place: where the page would be under docs/.
    """
    from tests.architecture import DIAGRAM

    def link(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups(default="")
        path = (file.parent / target).resolve()
        path = DOCS / FROM_ROOT[path] if path in FROM_ROOT else path
        if DOCS not in path.parents or path.is_dir():
            return text  # part of the sources, not of the site
        return f"{image}[{text}]({os.path.relpath(path, place.parent)}{anchor})"

    lines = [""]
    in_code = False
    for line in DIAGRAM.sub("![Packages and their imports](architecture.svg)\n", file.read_text("utf-8")).splitlines():
        in_code ^= line.lstrip().startswith("```")
        item = line.lstrip()
        if not in_code and LIST.match(item):
            if lines[-1] and not LIST.match(lines[-1].lstrip()) and not lines[-1].startswith(" "):
                lines.append("")
            item = " " * 2 * (len(line) - len(item)) + item  # four spaces a level
            lines.append(item)
        else:
            lines.append(line)
    return LINK.sub(link, "\n".join(lines).lstrip()) + "\n"


def navigation(pages: Path) -> str:
    """Return the navigation as TOML. :raises SystemExit: a page is in no tab."""
    left = {str(file.relative_to(pages)) for file in pages.rglob("*.md")}
    tabs = []
    for tab, patterns in TABS.items():
        found = [str(file.relative_to(pages)) for pattern in patterns for file in sorted(pages.glob(pattern))]
        found.sort(key=lambda name: not name.endswith("/index.md"))
        tabs.append(f"{{ {json.dumps(tab)} = {json.dumps(found)} }}")
        left -= {*found}
    if left:
        raise SystemExit(f"docs/site/build.py: expected these pages in a tab of TABS: {', '.join(sorted(left))}")
    return f"nav = [{', '.join(tabs)}]\n\n"


def configure(folder: Path) -> Path:
    """Write the settings next to the pages."""
    settings = (HERE / "zensical.toml").read_text(encoding="utf-8")
    settings = settings.replace("[project.theme]", navigation(folder / "pages") + "[project.theme]", 1)
    settings += f"extensions = [{json.dumps(str(HERE / 'docstrings.py'))}]\n\n"
    settings += f"[project.plugins.mkdocstrings.handlers.python]\npaths = [{json.dumps(str(ROOT / 'src'))}]\n"
    (folder / "zensical.toml").write_text(settings, encoding="utf-8")
    return folder / "zensical.toml"


def main(folder: Path) -> None:
    """Build the site into *folder*/site. :raises SystemExit: a page is in no tab, or Zensical warns."""
    from diagram import draw
    from reference import write_commands, write_python

    shutil.rmtree(folder, ignore_errors=True)
    stage(folder / "pages")
    (folder / "pages" / "architecture.svg").write_text(draw(), encoding="utf-8")
    write_commands(folder / "pages" / "reference" / "cli")
    write_python(folder / "pages" / "reference" / "python")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", str(configure(folder))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = COLOUR.sub("", done.stdout + done.stderr).partition("Traceback")[0].strip()
    if done.returncode or "warning" in output.casefold():
        raise SystemExit(output)
    print(f"{len(list((folder / 'site').rglob('*.html')))} pages in {folder / 'site'}")


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    main(Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT / "build" / "docs")
