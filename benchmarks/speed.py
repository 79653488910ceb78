"""Fathom and its peers on the same statements: seconds per query, ratios, peak memory.

    python benchmarks/speed.py                 # causal and masked, relation P36 of BEAR
    python benchmarks/speed.py --queries 10    # more queries (peers are slow)
    python benchmarks/speed.py --model FOLDER  # a causal model of your own, one thread
    python benchmarks/speed.py --growth        # how time grows with answers and instances

Without --model, models are GPT-2-small- and RoBERTa-base-shaped with random weights. Seconds are of the clock, and of
the processor. Each engine runs in a process of its own, so that its peak memory is its own. BEAR and the tokenizers
are looked for in ``FATHOM_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import sys
import time
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
DATA = Path(os.environ.get("FATHOM_DATA") or Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
RELATION = "P36"
MODEL = "FATHOM_BENCHMARK_MODEL"
"""In the environment of each engine's process: the folder of --model."""


def network_and_tokenizer(kind: str):
    import torch
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        GPT2Config,
        GPT2LMHeadModel,
        GPT2TokenizerFast,
        PreTrainedTokenizerFast,
        RobertaConfig,
        RobertaForMaskedLM,
    )

    if folder := os.environ.get(MODEL):
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        return network.eval(), AutoTokenizer.from_pretrained(folder)
    torch.manual_seed(0)
    if kind == "causal":
        return GPT2LMHeadModel(GPT2Config()).eval(), GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")
    special = {"mask_token": "<mask>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    tokenizer = PreTrainedTokenizerFast.from_pretrained(DATA / "tokenizers" / "roberta-base", **special)
    config = RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
    return RobertaForMaskedLM(config).eval(), tokenizer


def questions(count: int, answers: int | None = None):
    """(template, subjects, answers) of the relation; the first template."""
    from fathom.data.formats import read
    from fathom.data.selection.filters import select
    from fathom.data.selection.options import Selection

    data = select(read(DATA / "bear" / "BEAR"), Selection(relations=[RELATION])).data
    subjects = [query.subject for query in data.queries][:count]
    return data.relations[RELATION].templates[0], subjects, data.candidates[RELATION].names[:answers]


def fathom_scores(kind: str, count: int, dtype: str = "float32", answers: int | None = None):
    import torch

    from fathom.engine.models.loading import wrap
    from fathom.engine.scoring.masked import Pll
    from fathom.engine.scoring.memory import Budget
    from fathom.engine.scoring.statements import (
        Reduction,
        Score,
        counted_tokens,
        encode_statements,
        reduce_scores,
        statement_log_probs,
    )

    network, tokenizer = network_and_tokenizer(kind)
    model = wrap(network.to(getattr(torch, dtype)), tokenizer)
    template, subjects, names = questions(count, answers)
    model.refuses_tree(), model.linear_head()  # self-checks happen once per model, not per query

    def score():
        prompts = [template.fill(subject, name) for subject in subjects for name in names]
        statements = encode_statements(model, prompts, tokenizer.bos_token_id)
        found = statement_log_probs(model, statements, Pll.WITHIN_WORD_L2R, Budget(None, model.device))
        return [
            reduce_scores(values, counted_tokens(tokens, Score.FULL, model.attention), Reduction.SUM)
            for tokens, values in zip(statements, found, strict=True)
        ]

    return score


def lm_pub_quiz_scores(kind: str, count: int, batch_size: int):
    from lm_pub_quiz import Evaluator

    network, tokenizer = network_and_tokenizer(kind)
    evaluator = Evaluator.from_model(network, model_type="CLM" if kind == "causal" else "MLM", tokenizer=tokenizer)
    template, subjects, names = questions(count)

    def score():
        return [
            value
            for subject in subjects
            for value in evaluator.score_answers(
                template=template.text, answers=list(names), subject=subject, reduction="sum", batch_size=batch_size
            )
        ]

    return score


def harness_scores(count: int, batch_size: int):
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    network, tokenizer = network_and_tokenizer("causal")
    model = HFLM(pretrained=network, tokenizer=tokenizer, batch_size=batch_size)
    template, subjects, names = questions(count)
    texts = [template.fill(subject, name).text for subject in subjects for name in names]
    requests = [Instance("loglikelihood", {}, ("", text), number) for number, text in enumerate(texts)]
    return lambda: [value for value, _ in model.loglikelihood(requests, disable_tqdm=True)]


ENGINES = {
    "causal": {
        "Fathom": lambda n: fathom_scores("causal", n),
        "Fathom bfloat16": lambda n: fathom_scores("causal", n, "bfloat16"),
        "lm-pub-quiz (its default: batch 1)": lambda n: lm_pub_quiz_scores("causal", n, 1),
        "lm-pub-quiz, batch 32": lambda n: lm_pub_quiz_scores("causal", n, 32),
        "lm-evaluation-harness (its default: batch 1)": lambda n: harness_scores(n, 1),
        "lm-evaluation-harness, batch 32": lambda n: harness_scores(n, 32),
    },
    "masked": {
        "Fathom": lambda n: fathom_scores("masked", n),
        "Fathom bfloat16": lambda n: fathom_scores("masked", n, "bfloat16"),
        "lm-pub-quiz (its default: batch 1)": lambda n: lm_pub_quiz_scores("masked", n, 1),
        "lm-pub-quiz, batch 32": lambda n: lm_pub_quiz_scores("masked", n, 32),
    },
}


def measure(kind: str, engine: str, count: int, pipe) -> None:
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - peers draw bars
    score = ENGINES[kind][engine](count)
    start, processor_start = time.perf_counter(), time.process_time()
    scores = score()
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    pipe.send((seconds / count, processor / count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, scores))


def in_own_process(kind: str, engine: str, count: int):
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=measure, args=(kind, engine, count, theirs))
    process.start()
    found = ours.recv()
    process.join()
    return found


def ranks_changed(left: list[float], right: list[float], answers: int) -> str:
    """How many first answers, and how many ranks of all answers, differ between two lists of scores."""
    import numpy as np

    first, second = (np.array(scores).reshape(-1, answers) for scores in (left, right))
    places = [np.argsort(np.argsort(-scores, axis=1), axis=1) for scores in (first, second)]
    tops = (first.argmax(1) != second.argmax(1)).sum()
    return f"{tops} of {len(first)} first answers, {(places[0] != places[1]).mean():.0%} of all ranks"


def compare(kind: str, count: int) -> list[dict]:
    rows = []
    for engine in ENGINES[kind]:
        seconds, processor, peak, scores = in_own_process(kind, engine, count)
        times = {"s/query": seconds, "CPU s/query": processor}
        rows.append({"engine": engine, **times, "peak MiB": peak // 1024, "scores": scores})
        print(f"  {engine}: {seconds:.3f} s/query, {processor:.3f} CPU s", file=sys.stderr)
    ours = rows[0]
    answers = len(ours["scores"]) // count
    print(
        f"\n{kind}, {RELATION}, {count} queries, {answers} answers each; {platform.processor() or platform.machine()}"
    )
    columns = (
        "engine",
        "s/query",
        "times as fast",
        "CPU s/query",
        "times",
        "peak memory, MiB",
        "largest difference, nats",
    )
    print(f"| {' | '.join(columns)} |\n|---{'|---:' * (len(columns) - 1)}|")
    for row in rows:
        off = max(abs(a - b) for a, b in zip(row["scores"], ours["scores"], strict=True))
        seconds, processor = (f"{row[name]:.3f} | {row[name] / ours[name]:.1f}" for name in ("s/query", "CPU s/query"))
        print(f"| {row['engine']} | {seconds} | {processor} | {row['peak MiB']} | {off:.1e} |")
    print(f"bfloat16 changes {ranks_changed(ours['scores'], rows[1]['scores'], answers)}")
    return [{name: value for name, value in row.items() if name != "scores"} for row in rows]


def growth() -> None:
    print("| queries | answers | statements | seconds | ms/statement |\n|---:|---:|---:|---:|---:|")
    for count, answers in ((2, 15), (2, 30), (2, 60), (8, 60), (32, 60)):
        score = fathom_scores("causal", count, answers=answers)
        start = time.perf_counter()
        statements = len(score())
        seconds = time.perf_counter() - start
        print(f"| {count} | {answers} | {statements} | {seconds:.2f} | {1000 * seconds / statements:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=5)
    parser.add_argument("--kind", choices=list(ENGINES), action="append")
    parser.add_argument("--model", help="folder of a causal model")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--json", type=Path, help="also keep the numbers here")
    arguments = parser.parse_args()
    if arguments.growth:
        growth()
        return
    if arguments.model:
        os.environ |= {MODEL: arguments.model, "OMP_NUM_THREADS": "1"}
        arguments.kind = ["causal"]
    found = {kind: compare(kind, arguments.queries) for kind in arguments.kind or ENGINES}
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
