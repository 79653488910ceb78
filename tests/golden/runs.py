"""The golden runs: command lines, executed in the folder that :mod:`tests.golden.desk` writes. They use only Fathom's
commands, so that they do not change when modules move.

There is one case per probe, per architecture of link predictor and per kind of table. A number that another test pins
by hand needs no case."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """Command lines and what they need.

    :param lines: arguments of ``fathom``. The output is kept if they end in ``--format json`` or ``csv``, and so are
        all files in the folders given by ``--out``.
    :param needs: cases whose folders are read.
    :param extras: modules without which the case is skipped.
    """

    lines: tuple[str, ...]
    needs: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()


CASES: dict[str, Case] = {}


def case(name: str, *lines: str, needs: str = "", extras: str = "") -> None:
    CASES[name] = Case(tuple(" ".join(line.split()) for line in lines), tuple(needs.split()), tuple(extras.split()))


JSON = "--format json"


def probed(name: str, line: str, *metrics: str, **more: str) -> None:
    """A run in ``runs/NAME``, and what ``fathom metrics`` says of it with the options given."""
    out = f"runs/{name}"
    case(
        name, f"probe {line} --out {out}", *(f"metrics {out} {options} {JSON}" for options in metrics or ("",)), **more
    )


# ----------------------------------------------------------------------------------------------------------- probes

CAUSAL, LARGER, MASKED, ROBERTA = (
    f"--model models/{name}" for name in ("causal", "causal-larger", "masked", "roberta")
)
TOWNS, GRAPH, TOWN = "--data data/towns", "--data data/graph", "--data data/town"
EVERY_SCORE = "--reduction sum,mean --score full,conditional,answer"
ALL = "--by relation,cardinality,half,relation+template --errors 3"

probed("statement-causal", f"statement {CAUSAL} {TOWNS} {EVERY_SCORE} --perplexity --limit 8", ALL)
probed("statement-causal-max-rank", f"statement {CAUSAL} {TOWNS} --max-rank 3 --reduction sum", "--by relation")
probed("statement-masked", f"statement {MASKED} {TOWNS} {EVERY_SCORE} --perplexity --limit 5", ALL)
probed("embedding-causal", f"embedding {CAUSAL} {GRAPH} --shots 3", "--by relation,cardinality --errors 3")
probed("vocabulary-masked", f"vocabulary {ROBERTA} {TOWNS} --templates 0,1 --reading template-based", "--by template")
probed(
    "cloze",
    f"cloze {MASKED} {TOWNS} --masks several,one --reduction mean,max,first --reading template-based --perplexity "
    "--limit 4",
    ALL,
)
probed("generation", f"generation {CAUSAL} {TOWNS} --shots 3 --max-new-tokens 6", "--by relation --errors 3")

case(
    "build-ontology",
    "build ontology --input texts/town.ttl --patterns texts/town-patterns.tsv --out data/town --instances 3",
    extras="pyoxigraph",
)
ITEMS = f"{TOWN} --relations type,subPropertyOf --limit 7"
ONTOLOGY = {"needs": "build-ontology", "extras": "pyoxigraph"}
probed(
    "ontology",
    f"ontology {MASKED} {ITEMS} --subset test --masks several,one --reduction mean,first",
    "--by relation --errors 2",
    **ONTOLOGY,
)
CHOICES = "--data data/earlier/choices"
"""As version 0.1.0 built them."""
probed(
    "choice-causal",
    f"choice {CAUSAL} {CHOICES} --limit 12 --score letter,text-sum",
    "--by relation,p1 --errors 2",
)


# ---------------------------------------------------------------------------------------------------------- studies

READINGS = [
    (name, reading)
    for name in ("masked", "roberta", "causal", "causal-larger")
    for reading in ("template-based", "template-free")
]
WORDINGS = {"template-based": "0,1", "template-free": "0"}
FREE, BASED = (
    [f"runs/{name}-{reading}" for name, reading in READINGS if reading.endswith(end)] for end in ("free", "based")
)
case(
    "two-readings",
    *(
        f"probe {'statement' if name.startswith('causal') else 'cloze'} --model models/{name} {TOWNS} --pool data "
        f"--relations capital --templates {WORDINGS[reading]} --reading {reading} --limit 6 "
        f"--perplexity --out runs/{name}-{reading}"
        for name, reading in READINGS
    ),
    f"probe cloze {MASKED} {TOWNS} --relations capital --reading template-free --sentences all --any-surface "
    "--add-candidates more.txt --out runs/masked-more",
    f"metrics runs/masked-more --by relation --errors 2 {JSON}",
)
case(
    "study-entailment",
    f"study entailment {MASKED} {TOWN} --rules rdfs3,rdfs7 --pairs 1 --limit 12 --seed 1 --subset test "
    "--out studies/entailment",
    f"study entailment {MASKED} {TOWN} --rules rdfs9 --wordings learnt --pairs 1 --limit 8 --epochs 1 "
    "--out studies/entailment-learnt",
    **ONTOLOGY,
)

case(
    "compare",
    f"compare {' '.join(BASED + FREE)} {JSON}",
    f"compare {BASED[0]} {BASED[1]} --metrics hits@2,mrr --out compared {JSON}",
    "compare runs/statement-causal --scoring sum/full,mean/full --to-first --cluster half --format csv",
    needs="two-readings statement-causal",
)
case(
    "diff",
    f"diff {BASED[0]} {FREE[0]} --by half --k 2 --out changed {JSON}",
    f"diff {BASED[2]} {BASED[3]} --format csv",
    needs="two-readings",
)

# --------------------------------------------------------------------------------------------------- link predictors


def links(name: str, kind: str, options: str, *asked: str, extras: str = "") -> None:
    """Trained, asked and questioned."""
    folder, run = f"links/{name}", f"runs/link-{name}"
    case(
        f"links-{name}",
        f"kgc train {kind} {GRAPH} {options} --out {folder}",
        f"kgc evaluate {folder} {GRAPH} --out {run}",
        f"metrics {run} --by direction,relation,cardinality --errors 2 {JSON}",
        f"kgc predict {folder} {GRAPH} --relation cap --head Accra --top 3 {JSON}",
        f"kgc predict {folder} {GRAPH} --relation in --tail Europe --top 3 {JSON}",
        *(f"kgc evaluate {folder} {GRAPH} {options} --out {run}-{n}" for n, options in enumerate(asked)),
        *(f"metrics {run}-{n} {JSON}" for n in range(len(asked))),
        extras=extras,
    )


SMALL = "--epochs 2 --batch-size 8 --learning-rate 0.001"
links(
    "transe",
    "pykeen --model TransE",
    "--epochs 4 --batch-size 8 --learning-rate 0.05 --dimension 8 --validate-every 2",
    "--limit 3 --directions tail --top-k 4",
    "--split dev",
    extras="pykeen",
)
links("simkgc", "simkgc", f"--weights models/masked {SMALL} --config texts-24.yaml", "--config rerank.yaml")
links(
    "knn-kge",
    "knn-kge",
    f"--weights models/masked {SMALL} --config entities.yaml",
    "--config no-neighbours.yaml",
)
links(
    "kgt5",
    "kgt5",
    f"--weights models/t5 {SMALL} --config texts-40.yaml",
    "--config beams.yaml --limit 3",
)
links(
    "prompted",
    "prompted",
    "--weights models/causal --config candidates-10.yaml",
    "--config candidates-12.yaml --limit 3",
    extras="bm25s",
)
case("study-kgc", "plan plan.yaml --out studies/kgc", extras="pykeen")
case(
    "plant",
    f"plant --kind causal {TOWNS} --epochs 2 --hidden-size 16 --layers 1 --heads 2 --vocabulary 400 "
    "--out models/planted",
    f"probe statement --model models/planted {TOWNS} --templates 0 --out runs/planted",
    f"metrics runs/planted --groups models/planted/planted.jsonl --by planted,template {JSON}",
)

# ------------------------------------------------------------------------------------------------- data and building

case("data-info", *(f"data info {name} {JSON}" for name in ("geography", "data/towns", "data/graph")))
case("build-worlds", f"build worlds {GRAPH} --seed 2 --out data/worlds --relax --audit {JSON}")
case(
    "build-cloze",
    "build cloze --input texts/notes.txt --lines --entities chemicals=texts/chemicals.tsv --out data/cloze "
    f"--no-quality --min-letters 1 --min-words 0 {JSON}",
    f"data info data/cloze {JSON}",
    f"probe cloze {MASKED} --data data/cloze --out runs/built-cloze",
    extras="ahocorasick_rs sentencex",
)

case(
    "build-bear",
    f"build bear --input wikidata/dump.json --plan wikidata/plan.yaml --out data/bear {JSON}",
    f"data info data/bear {JSON}",
    f"probe statement {CAUSAL} --data data/bear --out runs/built-bear",
    f"probe statement {CAUSAL} --data data/bear/big --subset lite --out runs/built-bear-lite",
    extras="rapidfuzz",
)

# ------------------------------------------------------------------------------------------- runs of an earlier version

OLD = {
    "statement-causal": f"probe statement {CAUSAL} {TOWNS} --limit 5 --templates 0",
    "statement-masked": f"probe statement {MASKED} {TOWNS} --limit 5 --templates 0 --reduction sum,mean",
    "embedding": f"probe embedding {CAUSAL} {TOWNS} --limit 5 --shots 1",
    "vocabulary": f"probe vocabulary {MASKED} {TOWNS} --limit 5 --templates 0 --reading template-based",
    "cloze": f"probe cloze {MASKED} {TOWNS} --limit 5 --reading template-free",
    "ontology": f"probe ontology {MASKED} {TOWN} --limit 5 --relations type,subPropertyOf --templates 0",
    "generation": f"probe generation {CAUSAL} {TOWNS} --limit 5 --shots 1 --max-new-tokens 3",
    "choice": f"probe choice {CAUSAL} {TOWNS} --limit 5 --options 3 --score letter",
    "link": f"kgc evaluate links/old {GRAPH}",
}
"""Runs whose folders lie beside this file as version 0.1.0 wrote them, but for ``--out``."""
OLD_PREDICTOR = f"kgc train pykeen --model TransE {GRAPH} --epochs 2 --batch-size 8 --dimension 4 --out links/old"
OLD_NEEDS = {"ontology": ("build-ontology",)}
OLD_EXTRAS = {"ontology": ("pyoxigraph",), "link": ("pykeen",)}
OLD_WITHOUT = {"embedding": ("--no-shorten",), "ontology": ("--subset", "test")}
"""What version 0.1.0 could not do, or did unasked: such a run goes on so."""
