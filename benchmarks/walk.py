"""The files that one query goes through, and the pairs of calling and called file.

Counted are files of the package in which a function ran while ``fathom probe statement`` evaluates one query. Importing
is not counted, nor what a class statement or a comprehension at the head of a module runs.

    python benchmarks/walk.py [--data BEAR] [--pairs]

By default the data are those that Fathom brings along; ``--pairs`` lists what was found. Another version of Fathom is
measured with its ``src`` in PYTHONPATH.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import fathom

ROOT = Path(fathom.__file__).parent
IMPORTING = "<module>"
"""What Python calls the code of a module that is being imported."""


def main() -> None:
    said = argparse.ArgumentParser(description="Count the files that one query goes through.")
    said.add_argument("--data", default="geography", help="BEAR's folder, or any other data")
    said.add_argument("--pairs", action="store_true", help="list files and pairs")
    arguments = said.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder) / "gpt2")
        command = [
            *("probe", "statement", "--model", f"{folder}/gpt2", "--data", arguments.data, "--limit", "1"),
            *("--out", f"{folder}/run"),
        ]
        pairs = walked(lambda: call(command))
    files = {file for pair in pairs for file in pair}
    if arguments.pairs:
        print("\n".join(f"{caller} → {called}" for caller, called in sorted(pairs)), "", *sorted(files), sep="\n")
    rooms = Counter(file.partition("/")[0] for file in files)
    print(f"{len(files)} files, {len(pairs)} pairs of files; {', '.join(f'{r} {n}' for r, n in rooms.most_common())}")


def call(command: list[str]) -> None:
    """The command line, in this process."""
    from fathom.cli import main as run

    sys.argv = ["fathom", *command]
    try:
        run()
    except SystemExit as end:
        if end.code:
            raise


def make_model(folder: Path) -> None:
    """A GPT-2 of random weights whose tokens are bytes."""
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=_bytes(), bos_token="<s>", eos_token="<s>")
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=256, bos_token_id=tokenizer.bos_token_id
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _bytes() -> Any:
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator([""], vocab_size=257, special_tokens=["<s>"])
    return trained._tokenizer


def walked(work: Callable[[], None]) -> set[tuple[str, str]]:
    """Pairs of files, the first of which called a function of the second; "" for code that is not the package's."""
    pairs: set[tuple[str, str]] = set()

    def see(frame: FrameType) -> None:
        """Calls by way of a library count for the file that called the library."""
        callers = [above for above in _above(frame) if _file(above)]
        importing = any(above.f_code.co_name == IMPORTING for above in callers)
        if callers and not importing and _file(callers[0]) != _file(frame):
            pairs.add((_file(callers[0]), _file(frame)))

    with profiled(see):
        work()
    return pairs


def _above(frame: FrameType) -> Iterator[FrameType]:
    """What has called *frame*, nearest first."""
    while frame.f_back is not None:
        frame = frame.f_back
        yield frame


def _file(frame: FrameType) -> str:
    """Within the package; "" elsewhere."""
    file = Path(frame.f_code.co_filename)
    return str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""


@contextmanager
def profiled(see: Callable[[FrameType], object]) -> Iterator[None]:
    """While inside, *see* is handed every call of a Python function of the package."""

    def each(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != IMPORTING and _file(frame):
            see(frame)

    sys.setprofile(each)
    try:
        yield
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    main()
