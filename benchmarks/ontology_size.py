"""How much time and memory it takes to build a data set from an ontology, made up at random.

python benchmarks/ontology_size.py [--classes 100000] [--instances 200000] [--folder DIR]

Each class is below one of an eighth as many above it (and every tenth is defined by an intersection), each thing is
stated to be of two classes that have nothing to do with each other. One thread; peak memory is that of the process.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from pathlib import Path

from fathom.building.ontology import build_ontology

HEAD = """@prefix : <http://e.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""


def make(file: Path, classes: int, instances: int) -> None:
    """An ontology in Turtle."""
    draw = random.Random(0)
    with file.open("w", encoding="utf-8") as out:
        out.write(HEAD)
        for number in range(classes):
            above = f":C{(number - 1) // 8}" if number else "owl:Thing"
            part = f"owl:equivalentClass [ owl:intersectionOf ( {above} [ owl:someValuesFrom :C0 ] ) ]"
            stated = part if number % 10 == 9 else f"rdfs:subClassOf {above}"
            out.write(f':C{number} a owl:Class ; rdfs:label "class {number}"@en ; {stated} .\n')
        for number in range(instances):
            first, second = draw.sample(range(classes), 2)
            out.write(f":Thing_{number} a :C{first} , :C{second} .\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=100_000)
    parser.add_argument("--instances", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, default=None, help="where the files lie meanwhile (default: temporary)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        file = Path(folder) / "ontology.ttl"
        make(file, chosen.classes, chosen.instances)
        clock, processor = time.perf_counter(), time.process_time()
        built = build_ontology([file], [], Path(folder) / "built")
        clock, processor = time.perf_counter() - clock, time.process_time() - processor
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        size = file.stat().st_size / 1e6
    print(
        "| classes | instances | file, MB | items of type | items of subClassOf | s | s of the processor | peak, GB |"
    )
    print(
        f"| {len(built.classes):,} | {chosen.instances:,} | {size:.0f} | {built.tasks['type']:,} | "
        f"{built.tasks['subClassOf']:,} | {clock:.0f} | {processor:.0f} | {peak:.2f} |"
    )


if __name__ == "__main__":
    main()
