"""The engine side by side with its earlier commits, in turns in one call: seconds of the processor, one thread.

    python benchmarks/before.py beginnings --commits 8ad35ce     # 60 answers behind 512 tokens that all share
    python benchmarks/before.py beginnings --commits dab564f~1 --layers 2 --rounds 1   # before 22 November 2026
    python benchmarks/before.py masked --commits 8ad35ce         # pseudo-log-likelihoods, BERT-base shape
    python benchmarks/before.py causal --commits 8ad35ce --questions 4
    python benchmarks/before.py llama --commits 4986087          # four layers of 1,024 dimensions
    python benchmarks/before.py tokens --commits 615c09b         # statements as tokens with roles, before any model
    python benchmarks/before.py host --commits 61b4336           # the statement probe without a model's passes
    python benchmarks/before.py masked --profile                 # where this version's time goes, by torch's profiler

Statements are of relation P36 of BEAR; models have GPT-2-small or BERT-base shape and random weights, which changes
nothing about speed. Each version runs in processes of its own, its sources unpacked beside. BEAR and the tokenizers are
looked for in ``FATHOM_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from speed import DATA
from speed import questions as asked

if TYPE_CHECKING:
    import numpy as np

HERE = Path(__file__).resolve().parents[1]
Scoring = Callable[[], "list[np.ndarray]"]


def causal(layers: int, prompt: int, questions: int) -> Scoring:
    """The last *questions* subjects with every answer, behind lines of *prompt* tokens that all share."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return answers(GPT2LMHeadModel(GPT2Config(n_layer=layers)), prompt, questions)


def llama(layers: int, prompt: int, questions: int) -> Scoring:
    """The same of a Llama, whose layers make more and larger tensors on the way."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": layers, "num_attention_heads": 16}
    return answers(LlamaForCausalLM(LlamaConfig(vocab_size=50257, **shape)), prompt, questions)


def answers(network: Any, prompt: int, questions: int) -> Scoring:
    """See :func:`causal`; the tokenizer is GPT-2's."""
    from transformers import GPT2TokenizerFast

    from fathom.models.loading import wrap
    from fathom.scoring.causal import causal_log_probs
    from fathom.scoring.memory import Budget

    tokenizer = GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")
    model = wrap(network.eval(), tokenizer)
    model.refuses_cache(), model.linear_head()  # checks of the model happen once, and are not timed
    template, subjects, names = asked(60)
    lines = "\n".join(template.fill(subject, name).text for subject, name in zip(subjects, names, strict=False))
    before = tokenizer("\n".join([lines] * (1 + prompt // 400)))["input_ids"][: max(0, prompt - 1)]
    texts = [template.fill(subject, name).text for subject in subjects[-questions:] for name in names]
    ids = [[tokenizer.bos_token_id, *before, *tokenizer("\n" * bool(before) + text)["input_ids"]] for text in texts]
    return lambda: causal_log_probs(model, ids, Budget(None, model.device))


def masked(layers: int, prompt: int, questions: int) -> Scoring:
    """The first *questions* subjects with every answer; there is no prompt."""
    from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast

    from fathom.models.loading import wrap
    from fathom.scoring.masked import Pll, masked_log_probs
    from fathom.scoring.memory import Budget
    from fathom.scoring.tokens import encode_masked

    tokenizer = BertTokenizerFast.from_pretrained(DATA / "tokenizers" / "bert-base-cased", do_lower_case=False)
    network = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), num_hidden_layers=layers))
    model = wrap(network.eval(), tokenizer)
    template, subjects, names = asked(questions)
    statements = encode_masked(tokenizer, [template.fill(subject, name) for subject in subjects for name in names])
    score = partial(masked_log_probs, model, variant=Pll.WITHIN_WORD_L2R, budget=Budget(None, model.device))
    score(statements[:2])  # the model's checks
    return lambda: score(statements)


def tokens(layers: int, prompt: int, questions: int) -> Scoring:
    """All answers of the first *questions* subjects tokenised for GPT-2; there is neither model nor prompt."""
    from transformers import GPT2TokenizerFast

    from fathom.scoring.tokens import encode_causal

    tokenizer = GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")
    template, subjects, names = asked(questions)
    prompts = [template.fill(subject, name) for subject in subjects for name in names]
    encode_causal(tokenizer, prompts[:2], tokenizer.bos_token_id)
    return lambda: [one.ids * (1 + one.roles) for one in encode_causal(tokenizer, prompts, tokenizer.bos_token_id)]


def host(layers: int, prompt: int, questions: int) -> Scoring:
    """The statement probe of all relations with three templates, from prompts to Parquet, of a model whose scores are
    made of its tokens' numbers: what a fast device waits for."""
    import numpy as np
    from transformers import GPT2Config, GPT2LMHeadModel, GPT2TokenizerFast

    import fathom
    from fathom.models.loading import wrap
    from fathom.scoring import statements
    from fathom.scoring.trie import build_trie

    def from_numbers(model: Any, sequences: list[list[int]], budget: Any, vectors: Any = None) -> list[np.ndarray]:
        build_trie(sequences)
        return [np.array([np.nan, *(-(token % 97) / 7 for token in ids[1:])], np.float32) for ids in sequences]

    statements.causal_log_probs = from_numbers
    tokenizer = GPT2TokenizerFast.from_pretrained(DATA / "tokenizers" / "gpt2")
    model = wrap(GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2)).eval(), tokenizer)

    def scores() -> list[np.ndarray]:
        with tempfile.TemporaryDirectory() as folder:
            found = fathom.probe(
                "statement",
                model,
                DATA / "bear" / "BEAR",
                Path(folder) / "run",
                templates="0,1,2",
                limit=questions,
                progress=False,
            )
            return [np.array(own) for own in found.table()["gold_scores"].to_pylist()]

    return scores


MODES: dict[str, tuple[Callable[..., Scoring], dict[str, int]]] = {
    "beginnings": (causal, {"layers": 12, "prompt": 512, "questions": 1}),
    "causal": (causal, {"layers": 12, "prompt": 1, "questions": 4}),
    "llama": (llama, {"layers": 4, "prompt": 1, "questions": 8}),
    "masked": (masked, {"layers": 12, "prompt": 0, "questions": 1}),
    "tokens": (tokens, {"layers": 0, "prompt": 0, "questions": 100}),
    "host": (host, {"layers": 0, "prompt": 0, "questions": 1000}),
}


def measure(make: Callable[..., Scoring], shape: dict[str, int], profiled: bool) -> None:
    """Score in this process; prints seconds of the processor and the statements' scores."""
    import time

    import numpy as np
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    score = make(**shape)
    if profiled:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            score()
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=12, max_name_column_width=50))
        return
    start = time.process_time()
    found = score()
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "sums": [float(np.nansum(one.astype(np.float64))) for one in found]}))


def versions(commits: list[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and sources of each."""
    for number, commit in enumerate(commits):
        own = folder / str(number)
        own.mkdir()
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=HERE, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "x", "-C", own], input=archive, check=True)
        yield commit, own / "src"
    yield "here", HERE / "src"


def in_own_process(sources: Path, told: list[str], script: Path = Path(__file__)) -> dict[str, Any]:
    """What the script prints last, with the package as it is in *sources*."""
    surroundings = os.environ | {"PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(script), *told]
    said = subprocess.run(command, env=surroundings, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(said.splitlines()[-1])


def compare(told: list[str], commits: list[str], rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        each = dict(versions(commits, Path(folder)))
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in each}
        for _ in range(rounds):
            for name, sources in each.items():
                runs[name].append(in_own_process(sources, [*told, "--measure"]))
    here = runs["here"]
    print(f"{' '.join(told)}, {len(here[0]['sums'])} statements, {rounds} rounds in turns")
    print("| version | processor, s | least | most | here is … times as fast | largest difference, nats a statement |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, own in runs.items():
        seconds = [one["seconds"] for one in own]
        ratio = median(seconds) / median(one["seconds"] for one in here)
        off = max(abs(a - b) for a, b in zip(own[0]["sums"], here[0]["sums"], strict=True))
        print(f"| {name} | {median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f} | {ratio:.2f} | {off:.0e} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=list(MODES))
    parser.add_argument("--commits", default="", help="earlier versions to run beside this one, with commas")
    parser.add_argument("--prompt", type=int, help="tokens that all statements begin with")
    parser.add_argument("--questions", type=int, help="subjects, each with all answers")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="of this version alone")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    make, usual = MODES[given.mode]
    shape = {name: value if (own := getattr(given, name)) is None else own for name, value in usual.items()}
    if given.measure or given.profile:
        measure(make, shape, given.profile)
    else:
        told = [given.mode, *(f"--{name}={value}" for name, value in shape.items())]
        compare(told, [commit for commit in given.commits.split(",") if commit], given.rounds)


if __name__ == "__main__":
    main()
