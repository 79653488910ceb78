"""Samples of instances looked up by hand are those that the query gives, which servers are asked."""

from __future__ import annotations

import random

import pytest

from fathom.building.ontology.sources import InstanceSampling, LocalStore, instances_query

pyoxigraph = pytest.importorskip("pyoxigraph")

RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SKOS = "http://www.w3.org/2004/02/skos/core#"
LANGUAGES = ("", "@en", "@EN-gb", "@en-US", "@fr", "@eng")


def tangled(seed: int) -> str:
    """Twelve classes, two of them blank, above and below each other at random, in cycles, too; forty things of up to
    four of them, one blank; labels by two properties in six languages, or none."""
    draw = random.Random(seed)
    classes = [f"<http://e.org/C{number}>" for number in range(10)] + ["_:a", "_:b"]
    things = [f"<http://e.org/Thing_{number}>" for number in range(40)] + ["_:thing"]
    lines = [f"{one} <{RDFS}subClassOf> {other} ." for one, other in (draw.choices(classes, k=2) for _ in range(9))]
    for thing in things:
        lines += [f"{thing} a {kind} ." for kind in draw.sample(classes, draw.randint(1, 4))]
        for naming in (f"{RDFS}label", f"{SKOS}prefLabel"):
            lines += [
                f'{thing} <{naming}> "{draw.choice("äbZ z0")}{number}"{language} .'
                for number, language in enumerate(draw.sample(LANGUAGES, draw.randint(0, 2)))
            ]
    return "\n".join([*lines, f"<http://e.org/Thing_0> <{RDFS}label> <http://e.org/no-text> ."])


@pytest.mark.parametrize("seed", range(12))
def test_the_sample_is_that_of_the_query(seed):
    kept = pyoxigraph.Store()
    kept.load(tangled(seed).encode(), format=pyoxigraph.RdfFormat.TURTLE)
    store = LocalStore("a file", kept)
    drawn = InstanceSampling(
        seed, (3, 100)[seed % 2], (f"{SKOS}prefLabel", f"{RDFS}label"), ("en", "en-GB")[seed // 2 % 2]
    )
    for number in range(10):
        class_ = f"http://e.org/C{number}"
        by_query = list(store.rows(instances_query(class_, drawn)))
        by_hand = list(store.instances(class_, drawn))
        for row in (*by_query, *by_hand):
            row["types"] = " ".join(sorted(row["types"].split(" ")))
        assert by_hand == by_query
