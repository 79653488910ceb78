"""What worlds leave of names: forms that are replaced, mentions that are left, and their audit, worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fathom.base.errors import BadInput
from fathom_build.worlds import (
    Materials,
    WorldOptions,
    build_worlds,
    left_table,
    restore,
    tabulate_audits,
)
from fathom_build.worlds.build import INSERTED, Auditor, inserted_spans
from fathom_build.worlds.mentions import find_mentions, forms_of
from fathom_build.worlds.world import BASE, World
from tests.build.test_worlds import anonymised, make_graph, pets, virtual, with_aliases
from tests.messages import mentioned, stated


def chain(names, descriptions, aliases=()):
    """Entities one after another, each linked to the next."""
    triples = [(row, 0, (row + 1) % len(names)) for row in range(len(names))]
    graph = make_graph(names, descriptions, triples, ["then"])
    return with_aliases(graph, [list(some) for some in aliases]) if aliases else graph


def replaced(graph, **options):
    """What stood in place of random names, in the order of the texts."""
    return [span["old"] for span in anonymised(graph, "e", options=WorldOptions(**options)).spans.to_pylist()]


def left(world, source, shortest=2):
    columns = (world.spans.column(name).to_numpy() for name in INSERTED)
    spans = inserted_spans(world.graph, world.mapping, *columns)
    materials = Materials(source, options=WorldOptions(shortest_mention=shortest))
    return Auditor(materials).left(world.graph.entities.column("description"), spans)


# What is looked for


def test_other_names_and_inflected_forms_are_replaced():
    graph = chain(
        ["mouse", "cat", "tick off", "state of mind", "zorb"],
        ["cats and mice", "a kitty", "she ticked off two kitties", "states of mind, zorbs", "mouse"],
        [[], ["kitty"], [], [], []],
    )
    expected = ["cats", "mice", "kitty", "ticked off", "kitties", "states of mind", "zorbs", "mouse"]
    assert replaced(graph) == expected
    # By kind: mouse; kitty; all others. The dictionary has no "zorb", which gets the plural of a regular noun.
    counts = anonymised(graph, "e").counts
    assert counts["mentions_by_kind"] == {"name": 1, "alias": 1, "inflection": 6}
    assert replaced(graph, sought="names") == ["mouse"]


def test_words_of_two_letters_have_other_forms_and_no_plural():
    """ "his" is not the plural of "hi", nor "as" of "a", but "went" is a form of "go"."""
    graph = chain(["hi", "go", "a"], ["his hat goes as it went", "", ""])
    assert replaced(graph, shortest_mention=1) == ["goes", "went"]


def test_function_words_are_no_form_of_a_name():
    """ "is" means no entity called "be"; "be" itself is a name like any other, and so is "is" where it is one."""
    names = ["be", "have", "dog", "one", "be active", "much"]
    graph = chain(names, ["what is, IS or was to be", "has had dogs", "it could", "other ones", "it is active", "more"])
    assert replaced(graph) == ["be", "dogs", "is active"]
    assert left(World(BASE, graph), graph) == {"name": 1, "alias": 0, "inflection": 2, "short": 0, "other case": 0}
    assert replaced(chain(["be", "is"], ["it is", ""])) == ["is"]


def test_a_name_comes_before_another_name_and_that_before_an_inflected_form():
    names = ["mouse", "mice", "dog", "hound", "x"]
    graph = chain(
        names, ["", "", "", "", "mice see a hound, hounds, a cur"], [[], ["hounds"], ["hound", "cur"], [], []]
    )
    found = find_mentions(graph, forms=forms_of(graph.entities))
    # "mice" is a name (row 1) and a form of "mouse" (0); "hound" a name (3) and another name of "dog" (2); "hounds"
    # another name of "mice" (1) and a form of "hound" (3) and of "dog"'s.
    assert found.entity.tolist() == [1, 3, 1, 2]
    assert found.kinds == {"name": 2, "alias": 2, "inflection": 0}
    assert sum(found.ambiguous.values()) == 0


def test_case_counts_in_names_that_have_a_capital_and_in_no_others():
    """One name in capitals does not stop "Cat" from being found."""
    graph = chain(["cat", "NATO", "Turkey"], ["Cat and CAT", "nato or NATO", "turkey, Turkey, TURKEY"])
    assert replaced(graph) == ["Cat", "CAT", "NATO", "Turkey"]
    assert anonymised(graph, "e").counts["case"] == "mixed"
    assert len(replaced(graph, case="ignore")) == 7
    assert replaced(graph, case="exact") == ["NATO", "Turkey"]


def test_of_two_names_that_differ_in_case_the_one_as_written_is_found():
    graph = chain(["turkey", "Turkey", "x1"], ["", "", "turkey Turkey TURKEY"])
    assert find_mentions(graph).entity.tolist() == [0, 1, 0]


def test_what_is_sought_is_an_option_that_is_checked():
    with pytest.raises(ValueError, match="sought"):
        WorldOptions(sought="some")
    with pytest.raises(ValueError, match="rate"):
        WorldOptions(rate=2)


# What is left


FARM = chain(
    ["cow", "Turkey", "o", "mouse", "x1"],
    ["a cow, a cow, cows", "turkey or Turkey", "o bovine", "mice, TURKEY, o", "bovines"],
    [["bovine"], [], [], [], []],
)


def test_what_is_left_is_counted_by_kind():
    """In the graph as it is: cow twice and Turkey; bovine; cows, mice, bovines; o twice; turkey and TURKEY."""
    whole = {"name": 3, "alias": 1, "inflection": 3, "short": 2, "other case": 2}
    assert left(World(BASE, FARM), FARM) == whole
    assert left(anonymised(FARM, "r"), FARM) == whole
    assert left(anonymised(FARM, "e"), FARM) == {"name": 0, "alias": 0, "inflection": 0, "short": 2, "other case": 2}
    plain = anonymised(FARM, "e", options=WorldOptions(sought="names"))
    assert left(plain, FARM) == {"name": 0, "alias": 1, "inflection": 3, "short": 2, "other case": 2}
    bold = anonymised(FARM, "e", options=WorldOptions(case="ignore", shortest_mention=1))
    assert left(bold, FARM, shortest=1) == {"name": 0, "alias": 0, "inflection": 0, "short": 0, "other case": 0}


def test_names_that_were_put_in_are_not_left():
    """In a virtual world every name is that of another entity."""
    graph = pets()
    assert sum(left(virtual(graph, "e"), graph).values()) == 0
    assert left(virtual(graph, "r"), graph)["name"] == 6


# Folders


def outdated(folder: Path) -> None:
    """As an earlier version left it: its manifest has other options, and rates of re-identification."""
    file = folder / "manifest.json"
    made = json.loads(file.read_text(encoding="utf-8"))
    made["audit"] = {"names": {"value": 1.0}, "descriptions": {}, "strongest": None}
    del made["options"]["sought"]
    file.write_text(json.dumps(made), encoding="utf-8")


def test_worlds_of_an_earlier_version_say_what_they_lack_and_get_it(tmp_path):
    names = ["base", "virtual-e", "anonymised-er", "inconsistent-ed", "fully-anonymised-erd"]
    made = build_worlds(FARM, tmp_path / "new", names, name="farm", audit=True, options=WorldOptions(relax=True))
    build_worlds(FARM, tmp_path / "old", names, name="farm", options=WorldOptions(relax=True))
    for name in names:
        outdated(tmp_path / "old" / name)
    before = [json.loads((tmp_path / "old" / name / "manifest.json").read_text(encoding="utf-8")) for name in names]
    assert left_table(before) == []
    assert mentioned(left_table([before[0], made[1]])[0].notes[1], "not audited: base", "with --audit")
    again = build_worlds(FARM, tmp_path / "old", names, name="farm", audit=True, options=WorldOptions(relax=True))
    for name, now, manifest in zip(names, again, made, strict=True):
        assert now == json.loads((tmp_path / "old" / name / "manifest.json").read_text(encoding="utf-8"))
        assert now["left"] == manifest["left"], name
        assert restore(tmp_path / "old" / name).content_hash == FARM.content_hash


def test_worlds_that_are_there_are_audited_and_stay_as_they_are(tmp_path):
    graph = pets()
    [plain] = build_worlds(graph, tmp_path, ["anonymised-e"], name="pets")
    file = tmp_path / "anonymised-e" / "entity2text.txt"
    written = file.stat().st_mtime_ns
    [made] = build_worlds(graph, tmp_path, ["anonymised-e"], name="pets", audit=True)
    assert made == json.loads((tmp_path / "anonymised-e" / "manifest.json").read_text(encoding="utf-8"))
    assert made == plain | {"left": {"name": 0, "alias": 0, "inflection": 0, "short": 0, "other case": 0}}
    assert file.stat().st_mtime_ns == written
    [again] = build_worlds(graph, tmp_path, ["anonymised-e"], name="pets")  # it keeps its audit
    assert again == made


def test_a_study_tells_of_the_worlds_that_are_there(tmp_path):
    build_worlds(pets(), tmp_path, ["base"], audit=True)
    build_worlds(pets(), tmp_path, ["virtual-e"])
    [table] = tabulate_audits(tmp_path, ["virtual-e", "base", "anonymised-er"])
    assert [row[:2] for row in table.rows] == [("virtual-e", None), ("base", 6)]
    assert stated(table.notes, "not audited: virtual-e;", "with --audit")
    assert tabulate_audits(tmp_path / "none", ["base"]) == []


# Bad input


PLAIN = '{"world": "base", "seed": 0, "source": SOURCE, "options": OPTIONS}'
NOT_THE_SOURCE = PLAIN.replace("SOURCE", '"x"').replace("OPTIONS", '{"shortest_mention": 2}')
NO_SEED = PLAIN.replace('"seed": 0', '"seed": "x"').replace("SOURCE", '{"content_hash": "x"}')
NO_SEED = NO_SEED.replace("OPTIONS", '{"shortest_mention": 2}')
NOT_A_NUMBER = PLAIN.replace("SOURCE", '{"content_hash": "x"}').replace("OPTIONS", '{"shortest_mention": "two"}')


@pytest.mark.parametrize("content", ["[]", "{}", '{"world": "base"}', NOT_THE_SOURCE, NOT_A_NUMBER, NO_SEED])
def test_a_manifest_that_is_none_is_refused(content, tmp_path):
    build_worlds(pets(), tmp_path, ["base"])
    (tmp_path / "base" / "manifest.json").write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"no manifest .* lacks"):
        build_worlds(pets(), tmp_path, ["base"], audit=True)
