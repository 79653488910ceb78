"""The frame of all benchmarks: registry, options from signatures, models of usual shapes, timing and tables."""

from __future__ import annotations

import argparse
import inspect
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # some benchmarks use the answerers and made-up data of the tests
DATA = Path(os.environ.get("FATHOM_DATA") or ROOT.parent / "shared" / "data")
"""The reference data: BEAR, WN18RR, LAMA, OntoProbe, tokenizers …"""
BENCHMARKS: dict[str, Callable[..., object]] = {}
FATHOM = [sys.executable, "-m", "fathom"]


def benchmark(function: Callable[..., object]) -> Callable[..., Any]:
    """Register *function* under its name; a name that begins with "_" is a step of another benchmark."""
    BENCHMARKS[name_of(function.__name__)] = function
    return function


def name_of(function: str) -> str:
    return function[0] + function[1:].replace("_", "-")


def call(name: str, arguments: list[str]) -> None:
    """Run a benchmark with the options that its signature declares: ``--name VALUE``, lists separated by commas."""
    function = BENCHMARKS[name]
    doc = inspect.getdoc(function) or ""
    parser = argparse.ArgumentParser(f"run.py {name}", None, doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parameters = inspect.signature(function, eval_str=True).parameters
    for key, parameter in parameters.items():
        option = f"--{key.replace('_', '-')}"
        if parameter.kind is parameter.VAR_POSITIONAL:
            parser.add_argument(key, nargs="+", type=parameter.annotation)
        elif parameter.annotation is bool:
            parser.add_argument(option, action="store_true")
        else:
            required = parameter.default is parameter.empty
            default = None if required else parameter.default
            parser.add_argument(option, default=default, required=required, **_typed(parameter.annotation))
    values = vars(parser.parse_args(arguments))
    if not name.startswith("_"):
        print(machine(), flush=True)
    several = [value for key, p in parameters.items() if p.kind is p.VAR_POSITIONAL for value in values.pop(key)]
    function(*several, **values)


def _typed(annotation: Any) -> dict[str, Any]:
    """Return argparse's type and choices of an annotation."""
    if NoneType in get_args(annotation):
        [annotation] = (part for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is Literal:
        return {"choices": get_args(annotation)}
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        return {"type": lambda text: tuple(inner(part) for part in text.split(","))}
    return {"type": annotation}


# -------------------------------------------------------------------------------------------------- models and tokens


def tokenizer(name: str) -> Any:
    """Load a tokenizer of the reference data: gpt2, roberta-base, bert-base-cased or bert-base-uncased."""
    from transformers import BertTokenizerFast, GPT2TokenizerFast, PreTrainedTokenizerFast

    folder = DATA / "tokenizers" / name
    if name == "gpt2":
        return GPT2TokenizerFast.from_pretrained(folder)
    if name.startswith("bert"):
        return BertTokenizerFast.from_pretrained(folder, do_lower_case=name.endswith("uncased"))
    special = {"mask_token": "<mask>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast.from_pretrained(folder, **special)


def network(kind: str, **shape: Any) -> Any:
    """Return a network of `transformers` with random weights: speed does not depend on what a model knows."""
    import torch
    import transformers

    torch.manual_seed(0)
    model_class = getattr(transformers, kind)
    return model_class(model_class.config_class(**shape)).eval()


def gpt2(**shape: Any) -> Any:
    """Return a model of GPT-2-small's shape with Fathom's interface, its self-checks done."""
    return wrap(network("GPT2LMHeadModel", **shape), tokenizer("gpt2"))


def bert(layers: int = 12, hidden: int = 768) -> Any:
    """Return a model of BERT-base's shape with Fathom's interface, its self-checks done."""
    words = tokenizer("bert-base-cased")
    shape = {"hidden_size": hidden, "intermediate_size": 4 * hidden, "num_attention_heads": hidden // 64}
    return wrap(network("BertForMaskedLM", vocab_size=len(words), num_hidden_layers=layers, **shape), words)


def wrap(network: Any, words: Any) -> Any:
    """Return *network* with Fathom's interface; its self-checks happen once and must not be timed."""
    import fathom

    model = fathom.wrap_model(network, words)
    model.refuses_tree(), model.refuses_cache(), model.linear_head()
    return model


# ------------------------------------------------------------------------------------------------ timing and processes


class Duration(NamedTuple):
    """Seconds by the clock and of the processor."""

    clock: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.clock:.1f} s by the clock, {self.cpu:.1f} s of the processor"


def timed(work: Callable[[], Any]) -> tuple[Any, Duration]:
    """Return what *work* returns and how long it took."""
    clock, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, Duration(time.perf_counter() - clock, time.process_time() - cpu)


def in_turns(
    ways: Mapping[str, Callable[[], Any]], rounds: int, clock: Callable[[], float] = time.process_time
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run each way once per round, so that a busy machine affects all alike.

    :param clock: seconds of the processor by default.
    :returns: seconds of each round and the last result, by way.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    results = {}
    for _ in range(rounds):
        for name, way in ways.items():
            start = clock()
            results[name] = way()
            seconds[name].append(clock() - start)
    return seconds, results


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: median(values) for name, values in seconds.items()}


def own_process(name: str, *arguments: object, output: bool = False, **environment: object) -> str:
    """Run a step in a process of its own, so that its peak memory is its own. :returns: its output if asked for."""
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), name, *map(str, arguments)]
    variables = os.environ | {key: str(value) for key, value in environment.items()}
    result = subprocess.run(command, env=variables, check=True, text=True, stdout=subprocess.PIPE if output else None)
    return result.stdout or ""


def fathom_command(*words: object, **environment: str) -> str:
    """Run ``fathom``. :returns: its standard output."""
    command = [*FATHOM, *map(str, words)]
    return subprocess.run(command, env=os.environ | environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def peak() -> float:
    """Return the peak memory of this process so far, GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@contextmanager
def scratch(folder: Path | None = None) -> Iterator[Path]:
    """A temporary folder, inside *folder* if given."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        yield Path(name)


# ----------------------------------------------------------------------------------------------------------- printing


class Table:
    """A Markdown table, printed row by row."""

    def __init__(self, *columns: str) -> None:
        self.row(*columns)
        self.row(*["---", *["---:"] * (len(columns) - 1)])

    def row(self, *cells: object) -> None:
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def machine() -> str:
    """Return the processor, its cores and its load in one line."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{name}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}"


def share_interval(hits: int, n: int, level: float = 0.95) -> tuple[float, float, float]:
    """Return a share and the ends of its Wilson interval; NaN if n is 0."""
    if not n:
        return (float("nan"),) * 3
    from scipy.stats import binomtest  # slow to load

    ends = binomtest(hits, n).proportion_ci(level, method="wilson")
    return hits / n, float(ends.low), float(ends.high)
