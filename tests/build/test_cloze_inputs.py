"""What ``fathom build cloze`` reads of HTML, Markdown, reStructuredText and JATS articles."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fathom_build.cloze.build import REPLACED
from fathom_build.cloze.documents import render_markdown
from tests.build.test_build_cloze import article, build, dropped, facts, medline, names, texts
from tests.messages import stated

PAGE = """<!DOCTYPE html><html><head><title>On aspirin.</title><style>p {}</style></head><body>
<nav>Buy aspirin.</nav><h2>Uses of <i>it</i></h2>
<p>We&rsquo;d say <b>as</b>pirin<!-- a remark --> helps.<br>Then aspirin<sup>2</sup>.</p>
<div>Bare aspirin.<ul><li>Listed aspirin.<li>Another <a href="x">aspirin</a>.</ul> Behind aspirin.</div>
<table><tr><td>Aspirin</td></tr></table><pre>aspirin = 1</pre><script>aspirin()</script>After aspirin.
</body></html>"""


def test_html(tmp_path):
    file = Path(names(tmp_path / "a.html", PAGE))
    built = build(tmp_path, [file], "aspirin\n")
    assert texts(built.out) == [
        "We’d say [Y] helps.",
        "Bare [Y].",
        "Listed [Y].",
        "Another [Y].",
        "Behind [Y].",
        "After [Y].",
    ]
    first = facts(built.out)[0]["groups"]
    assert (first["section"], first["document"], first["offset"]) == ("Uses of it", "a.html", "0")


def test_markdown(tmp_path):
    text = (
        "---\ntitle: aspirin\n---\n# On *aspirin*\n\nIt is **aspirin**\nas [named](http://x.org).\n\n- One aspirin.\n\n"
        "| Aspirin | 1 |\n|---|---|\n| aspirin | 2 |\n\n    aspirin = 1\n\n```\naspirin\n```\n\nSee <http://aspirin.org>.\n"
    )
    file = tmp_path / "a.md.gz"
    file.write_bytes(gzip.compress(text.replace("\n", "\r\n").encode()))
    built = build(tmp_path, [file], "aspirin\n")
    assert texts(built.out) == ["It is [Y] as named.", "One [Y].", "See http://[Y].org."]
    assert facts(built.out)[0]["groups"]["section"] == "On aspirin"


def test_callouts_and_definitions_are_paragraphs_of_their_own():
    text = "> [!NOTE]\n> Aspirin helps.\n\n:::{tip}\nTin shines.\n:::\n\nAspirin\n: A drug.\n\nTin\n\n:   A metal.\n"
    rendered = " ".join(render_markdown(text).split())
    assert "<p>Aspirin helps.</p>" in rendered
    assert "<p>Tin shines.</p>" in rendered
    assert "<p>Aspirin</p> <p>A drug.</p>" in rendered
    assert "<p>Tin</p> <p>A metal.</p>" in rendered


RESTRUCTURED = """On *aspirin*
============

:author: Aspirin.

Uses of it
----------

It is **aspirin** [1]_ as
`named <http://x.org>`_. Then [CIT]_ *aspirin*.

.. raw:: html

   <p>Raw aspirin.</p>

.. include:: secret.txt
.. csv-table:: Aspirin
   :file: secret.txt
.. literalinclude:: secret.txt

   Unknown aspirin.

- One :term:`aspirin <drug>` only.

======= =
aspirin 1
======= =

.. code:: python

   aspirin = 1

See::

   aspirin

.. [1] Noted aspirin.
.. [CIT] Cited aspirin.
"""


def test_restructured_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path, tmp_path / "in"):
        names(place / "secret.txt", "Secret aspirin.")
    file = Path(names(tmp_path / "in" / "a.rst", RESTRUCTURED))
    built = build(tmp_path, [file], "aspirin\n")
    assert texts(built.out) == ["It is [Y] as named.", "Then [Y].", "One [Y] only."]
    assert {fact["groups"]["section"] for fact in facts(built.out)} == {"Uses of it"}
    manifest = json.loads((built.out / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["inputs"][0]["kind"] == "reStructuredText"
    assert "docutils" in manifest["libraries"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Aspirin. " * 2_000, ("line 1", "10,000")),
        ("".join(f"{'  ' * depth}- Aspirin.\n\n" for depth in range(2_000)), "no reStructuredText: RecursionError: "),
    ],
)
def test_restructured_text_that_cannot_be_read(tmp_path, text, why):
    names(tmp_path / "in" / "b.rst", "Is aspirin.")
    names(tmp_path / "in" / "a.rst", text)
    built = build(tmp_path, [tmp_path / "in"], "aspirin\n")
    assert texts(built.out) == ["Is [Y]."]
    assert stated(built.notes, "in/a.rst: line 1: ", why)


def test_faulty_restructured_text_is_read_as_far_as_it_goes(tmp_path, capfd):
    file = Path(names(tmp_path / "a.rst", "Title\n===\n\nIs aspirin \0 *now |so|_.\n\n==\n"))
    assert texts(build(tmp_path, [file], "aspirin\n").out)[0].startswith("Is [Y]")
    assert capfd.readouterr() == ("", "")


def jats(number: int, body: str, *, language: str = "en", year: int = 2022) -> str:
    return (
        f'<article xmlns:xlink="http://www.w3.org/1999/xlink" xml:lang="{language}"><front><article-meta>'
        f'<article-id pub-id-type="pmid">{number + 100}</article-id><article-id pub-id-type="pmc">{number}</article-id>'
        "<title-group><article-title>On aspirin.</article-title></title-group>"
        f'<pub-date pub-type="epub"><day>5</day><month>4</month><year>{year}</year></pub-date>'
        f'<history><date date-type="received"><year>{year}</year><month>02</month></date></history>'
        "<abstract><p>Short aspirin.</p></abstract></article-meta></front>"
        f"<body>{body}</body><back><ref-list><ref>Cited aspirin.</ref></ref-list></back></article>\n"
    )


BODY = """<sec><title>Results</title><p>Much <italic>aspirin</italic> helps <xref ref-type="bibr">[1]</xref>now<fn><p>A
note.</p></fn>.<table-wrap><caption><p>Tabular aspirin.</p></caption></table-wrap></p><sec><title>More</title>
<p>So aspirin<sub>2</sub> was. See <xref ref-type="fig">figure 2</xref> on aspirin.</p></sec></sec>
<fig><caption><p>Drawn aspirin.</p></caption></fig>"""


def test_jats(tmp_path):
    head = '<?xml version="1.0"?><!DOCTYPE article PUBLIC "-//NLM//DTD JATS" "x.dtd">\n'
    file = Path(names(tmp_path / "a.xml", head + jats(7, BODY)))
    found = facts(build(tmp_path / "1", [file], "aspirin\n", titles=True).out)
    assert [(fact["sentences"][0], fact["groups"].get("section")) for fact in found] == [
        ("On [Y].", "TITLE"),
        ("Short [Y].", None),
        ("Much [Y] helps now.", "Results"),
        ("See figure 2 on [Y].", "More"),
    ]
    assert (found[0]["groups"]["document"], found[0]["groups"]["date"]) == ("PMC7", "2022-02-01")


def test_jats_records_are_replaced_filtered_and_named(tmp_path):
    """As PubMed's: the last of one id counts, other languages and early ones are left out, broken ones named."""
    old, new = jats(7, "<p>Old aspirin.</p>"), jats(7, "<p>New aspirin.</p>")
    french, early = jats(8, "<p>Bon aspirin.</p>", language="fr"), jats(9, "<p>Early aspirin.</p>", year=2020)
    broken = jats(10, "<p>Bad aspirin.").replace("</article>", "")
    articles = f"<pmc-articleset>{old}{french}{early}{broken}{new}</pmc-articleset>"
    file = Path(names(tmp_path / "in" / "a.xml", articles))
    medline(tmp_path / "in" / "b.xml", article(1, "PubMed aspirin."))
    built = build(tmp_path, [file.parent], "aspirin\n", after="2021-12")
    assert texts(built.out) == ["Short [Y].", "New [Y].", "PubMed [Y]."]
    assert dropped(built) == {
        "cannot be read": 1,
        REPLACED: 1,
        "in another language": 1,
        "not after 2021-12-31": 1,
    }
    assert any("in/a.xml: byte" in note and "no </article>" in note for note in built.notes)


@pytest.mark.parametrize("name", ["a.html", "a.md", "a.rst"])
def test_wrong_encodings_and_empty_pages(tmp_path, name):
    names(tmp_path / "in" / "b.txt", "Is aspirin.")
    names(tmp_path / "in" / f"empty-{name}", "\n")
    (tmp_path / "in" / name).write_bytes(b"<p>Sch\xf6nes aspirin.</p>")
    built = build(tmp_path, [tmp_path / "in"], "aspirin\n")
    assert texts(built.out) == ["Is [Y]."]
    assert stated(built.notes, f"in/{name}: line 1: ", "UTF-8", "iconv")
    assert dropped(built) == {"cannot be read": 1, "without text": 1}
