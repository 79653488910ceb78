"""The golden runs: command lines, typed in a folder that :mod:`tests.golden.desk` has laid out. They use nothing of
Fathom but its commands, so that they stay what they are when its modules move."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """:param lines: what is typed behind ``fathom``; ``{server}`` is the address of a scripted chat server. What ends
    in ``--format json`` or ``csv`` has its output kept, and so has all that lies in the folders behind ``--out``.
    :param needs: cases whose folders are read. :param extras: modules without which the case is skipped.
    :param timed: columns that say how long something took."""

    lines: tuple[str, ...]
    needs: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    timed: tuple[str, ...] = ()


CASES: dict[str, Case] = {}


def case(name: str, *lines: str, needs: str = "", extras: str = "", timed: tuple[str, ...] = ()) -> None:
    CASES[name] = Case(
        tuple(" ".join(line.split()) for line in lines), tuple(needs.split()), tuple(extras.split()), timed
    )


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
ALL = "--by relation,cardinality,half,relation+template --errors 3 --reliability"

probed("statement-causal", f"statement {CAUSAL} {TOWNS} {EVERY_SCORE} --perplexity --limit 8", ALL)
probed(
    "statement-causal-plain",
    f"statement {CAUSAL} {TOWNS} --templates 0,2 --limit 8 --seed 3 --bos none --no-capitalize --top-k 3 "
    "--relations capital",
    "--by template,domain",
)
probed("statement-causal-max-rank", f"statement {CAUSAL} {TOWNS} --max-rank 3 --reduction sum", "--by relation")
probed("statement-causal-graph", f"statement {CAUSAL} {GRAPH} --shots 2 --closing --candidates asked", "--by relation")
probed(
    "statement-causal-pool", f"statement {CAUSAL} {TOWNS} --pool data --reduction mean --exclude-tails Rome --limit 7"
)
probed("statement-masked", f"statement {MASKED} {TOWNS} {EVERY_SCORE} --perplexity --limit 5", ALL)
for pll in ("original", "answer-l2r", "sentence-l2r"):
    probed(f"statement-masked-{pll}", f"statement {ROBERTA} {TOWNS} --limit 6 --templates 0,1 --pll {pll}")
probed("statement-masked-max-rank", f"statement {MASKED} {TOWNS} --max-rank 2 --limit 6 --templates 0")
probed("embedding-causal", f"embedding {CAUSAL} {GRAPH} --shots 3", "--by relation,cardinality --errors 3")
probed(
    "embedding-causal-other",
    f"embedding {LARGER} {TOWNS} --shots 2 --per-query-shots --trailing-space --tail-template B --pooling mean "
    "--limit 9",
)
probed("embedding-masked", f"embedding {MASKED} {GRAPH} --shots 1 --describe-head --tail-template A --candidates asked")
probed("vocabulary-causal", f"vocabulary {CAUSAL} {GRAPH} --shots 3", "--by relation --errors 2")
probed("vocabulary-masked", f"vocabulary {ROBERTA} {TOWNS} --templates 0,1 --reading template-based", "--by template")
probed(
    "cloze",
    f"cloze {MASKED} {TOWNS} --masks several,one --reduction mean,max,first --reading template-based --perplexity "
    "--limit 4",
    ALL,
)
probed(
    "cloze-relation", f"cloze {ROBERTA} {TOWNS} --pool relation --templates 0 --reading template-based", "--errors 3"
)
probed("generation", f"generation {CAUSAL} {TOWNS} --shots 3 --max-new-tokens 6", "--by relation --errors 3")
probed(
    "generation-questions",
    f"generation {LARGER} {TOWNS} --shots 2 --max-new-tokens 5 --questions questions.csv --limit 9 --no-normalise",
)

case(
    "build-ontology",
    "build ontology --input texts/town.ttl --patterns texts/town-patterns.tsv --out data/town --instances 3",
    extras="pyoxigraph",
)
case("build-choices", f"build choices {TOWN} --out data/choices --options 4 --seed 1", needs="build-ontology")
ITEMS = f"{TOWN} --relations type,subPropertyOf --limit 7"
ONTOLOGY = {"needs": "build-ontology", "extras": "pyoxigraph"}
probed(
    "ontology",
    f"ontology {MASKED} {ITEMS} --subset test --masks several,one --reduction mean,first",
    "--by relation --errors 2",
    **ONTOLOGY,
)
probed(
    "ontology-soft",
    f"ontology {MASKED} {ITEMS} --soft --epochs 2 --batch-size 4",
    **ONTOLOGY,
)
probed("ontology-own", f"ontology {ROBERTA} {ITEMS} --subset test --own-templates own.jsonl --templates 0", **ONTOLOGY)
probed(
    "ontology-causal",
    f"statement {CAUSAL} {ITEMS} --subset test --reduction mean",
    **ONTOLOGY,
)
CHOICES = "--data data/earlier/choices"
"""As version 0.1.0 built them."""
probed(
    "choice-causal",
    f"choice {CAUSAL} {CHOICES} --limit 12 --score letter,text-sum,text-mean",
    "--by relation,p1 --errors 2 --reliability",
)
probed("choice-masked", f"choice {MASKED} {CHOICES} --limit 12", "--by relation")
probed("choice-towns", f"choice {CAUSAL} {TOWNS} --options 3 --limit 8", "--by relation")
probed(
    "choice-server",
    f"choice --model tiny {CHOICES} --limit 12 --server {{server}} --concurrency 1",
    "--by relation",
    extras="openai",
)

probed("statement-config", f"statement {CAUSAL} {TOWNS} --config options.yaml --limit 4", "--by relation")
FIRST = ("statement-causal-max-rank", "cloze-relation", "generation")
case(
    "metrics-csv",
    *(f"metrics runs/{run} {options} --format csv" for run in FIRST for options in ("", "--by relation")),
    "metrics runs/cloze-relation --by half+template --format csv",
    needs=" ".join(FIRST),
)

# ---------------------------------------------------------------------------------------------------------- studies

case("study-ablation", f"study ablation {MASKED} {TOWNS} --templates 0 --limit 6 --out studies/ablation")
case(
    "study-ablation-causal", f"study ablation {CAUSAL} {TOWNS} --templates 0,1 --limit 8 --out studies/ablation-causal"
)
case(
    "study-ablation-max-rank",
    f"study ablation {CAUSAL} {TOWNS} --templates 0 --limit 8 --max-rank 2 --out studies/ablation-max-rank",
)
case("study-prompts", f"study prompts {CAUSAL} {GRAPH} --shots 2 --out studies/prompts")
case(
    "study-sizes",
    f"study sizes --models models/causal,models/causal-larger {GRAPH} --shots 2 --out studies/sizes",
    f"study sizes --models models/causal,models/causal-larger {TOWNS} --probes statement --max-rank 2 --limit 8 "
    "--out studies/sizes-towns",
)
case(
    "study-compute-time",
    f"study compute-time {CAUSAL} {GRAPH} --shots 1 --queries 1,3,5 --repeats 1 --out studies/compute-time",
    timed=(
        *("± error", "intercept, s", "R²", "± h"),
        *(f"{name}{end}" for name in ("seconds/query", "extrapolated, h") for end in ("", " low", " high")),
    ),
)
case(
    "study-agreement",
    f"probe embedding {CAUSAL} {GRAPH} --shots 2 --out runs/agreement-embedding",
    f"probe statement {CAUSAL} {GRAPH} --shots 2 --out runs/agreement-statement",
    f"probe statement {CAUSAL} {GRAPH} --shots 2 --max-rank 6 --out runs/agreement-stopped",
    "study agreement runs/agreement-embedding runs/agreement-statement --k 5 --out studies/agreement",
    "study agreement runs/agreement-embedding runs/agreement-stopped --k 5 --out studies/agreement-stopped",
)
case(
    "study-length-bias",
    "study length-bias runs/agreement-embedding runs/agreement-statement --out studies/length-bias",
    "study length-bias runs/agreement-embedding --tokenizer models/masked --out studies/length-bias-one",
    needs="study-agreement",
)
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
    "study-rankings",
    f"study rankings {' '.join(BASED + FREE)} --groups groups.csv --out studies/rankings",
    f"study rankings {' '.join(BASED)} {JSON}",
    needs="two-readings",
)
case("compare-readings", f"compare {' '.join(BASED[:1] + FREE[:1])} --out studies/readings", needs="two-readings")
case(
    "compare-pools",
    f"probe cloze {MASKED} {TOWNS} --relations capital --reading template-free --sentences all --any-surface "
    "--out runs/masked-fewer",
    "compare runs/masked-fewer runs/masked-more --out studies/pools",
    needs="two-readings",
)
case("study-repeated", f"study repeated {' '.join(BASED[:2] + FREE[:1])} --out studies/repeated", needs="two-readings")
case("study-perplexity", f"study perplexity {' '.join(BASED + FREE)} --out studies/perplexity", needs="two-readings")
case(
    "study-relations",
    *(
        f"probe statement {model} --data data/{data} --templates 0 --out runs/relations-{number}-{data}"
        for number, model in enumerate((CAUSAL, LARGER))
        for data in ("towns", "lands")
    ),
    "study relations runs/relations-0-towns runs/relations-0-lands runs/relations-1-towns runs/relations-1-lands "
    "--out studies/relations",
)
case(
    "study-choice",
    "study choice runs/choice-causal runs/choice-masked --out studies/choice",
    needs="choice-causal choice-masked",
)
case(
    "study-ontology",
    "study ontology runs/ontology runs/ontology-soft runs/ontology-own runs/ontology-causal --out studies/ontology",
    needs="ontology ontology-soft ontology-own ontology-causal",
    extras="pyoxigraph",
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


def links(name: str, model: str, options: str, *asked: str, extras: str = "") -> None:
    """Trained, asked and questioned."""
    folder, run = f"links/{name}", f"runs/link-{name}"
    case(
        f"links-{name}",
        f"kgc train --model {model} {GRAPH} {options} --out {folder}",
        f"kgc evaluate {folder} {GRAPH} --out {run}",
        f"metrics {run} --by direction,relation,cardinality --errors 2 --reliability {JSON}",
        f"kgc predict {folder} {GRAPH} --relation cap --head Accra --top 3 {JSON}",
        f"kgc predict {folder} {GRAPH} --relation in --tail Europe --top 3 {JSON}",
        *(f"kgc evaluate {folder} {GRAPH} {options} --out {run}-{n}" for n, options in enumerate(asked)),
        *(f"metrics {run}-{n} {JSON}" for n in range(len(asked))),
        extras=extras,
    )


SMALL = "--epochs 2 --batch-size 8 --learning-rate 0.001"
links(
    "transe",
    "TransE",
    "--epochs 4 --batch-size 8 --learning-rate 0.05 --dimension 8 --validate-every 2",
    "--limit 3 --directions tail --top-k 4",
    "--split dev",
    extras="pykeen",
)
links(
    "distmult",
    "DistMult",
    "--epochs 2 --batch-size 8 --dimension 8 --loop lcwa --inverse-triples --validate-every 1",
    extras="pykeen",
)
links("simkgc", "simkgc", f"--weights models/masked {SMALL} --max-tokens 24", "--rerank-weight 0.1")
links(
    "knn-kge",
    "knn-kge",
    f"--weights models/masked {SMALL} --entity-epochs 1 --entity-parts 1 --max-tokens 32",
    "--knn-weight 0",
)
links("kgt5", "kgt5", f"--weights models/t5 {SMALL} --max-tokens 40", "--no-full-rank --beams 2 --limit 3")
links(
    "genkgc", "genkgc", f"--weights models/bart {SMALL} --max-tokens 60 --demonstrations 1", "--no-full-rank --limit 3"
)
links(
    "prompted",
    "prompted",
    "--weights models/causal --candidates 10 --demonstrations 2",
    "--candidates 12 --candidates-by triples --gold-among-candidates --no-descriptions --limit 3",
    extras="bm25s",
)
case(
    "links-prompted-server",
    f"kgc train --model prompted {GRAPH} --weights tiny --server {{server}} --candidates 10 "
    "--out links/prompted-server",
    f"kgc evaluate links/prompted-server {GRAPH} --samples 2 --limit 3 --concurrency 1 --out runs/link-prompted-server",
    f"metrics runs/link-prompted-server --by direction {JSON}",
    extras="bm25s openai",
)
case("study-kgc", "kgc study plan.yaml --out studies/kgc", extras="pykeen")
case(
    "pretrain",
    f"kgc pretrain --kind masked {GRAPH} --contaminate test --exposures 2 --hidden-size 16 --layers 1 --heads 2 "
    "--vocabulary 400 --out models/pretrained",
)
case(
    "plant",
    f"plant --kind causal {TOWNS} --epochs 2 --hidden-size 16 --layers 1 --heads 2 --vocabulary 400 "
    "--out models/planted",
    f"probe statement --model models/planted {TOWNS} --templates 0 --out runs/planted",
    f"metrics runs/planted --groups models/planted/planted.jsonl --by planted,template {JSON}",
)

# ------------------------------------------------------------------------------------------------- data and building

case("data-info", *(f"data info {name} {JSON}" for name in ("geography", "data/towns", "data/graph")))
case("data-info-tokens", *(f"data info data/towns --tokenizer models/{name} {JSON}" for name in ("causal", "masked")))
case("data-leakage", f"data leakage data/graph {JSON}")
case("data-sample", "data sample data/graph --entities 9 --held-out-weight 2 --seed 1 --out data/part")
case("data-check", "data check data/towns", "data check data/graph", "data list")
case("build-worlds", f"build worlds {GRAPH} --seed 2 --out data/worlds --relax {JSON}")
case(
    "build-cloze",
    f"build cloze --input texts/notes.txt --lines --entities chemicals=texts/chemicals.tsv --out data/cloze {JSON}",
    f"build review texts/reviewed.csv {JSON}",
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
    "choice": f"probe choice {CAUSAL} {TOWNS} --limit 5 --options 3",
    "link": f"kgc evaluate links/old {GRAPH}",
}
"""Runs whose folders lie beside this file as version 0.1.0 wrote them, but for ``--out``."""
OLD_PREDICTOR = f"kgc train --model TransE {GRAPH} --epochs 2 --batch-size 8 --dimension 4 --out links/old"
OLD_NEEDS = {"ontology": ("build-ontology",)}
OLD_EXTRAS = {"ontology": ("pyoxigraph",), "link": ("pykeen",)}
OLD_WITHOUT = {"embedding": ("--no-shorten",), "ontology": ("--subset", "test")}
"""What version 0.1.0 could not do, or did unasked: such a run goes on so."""
