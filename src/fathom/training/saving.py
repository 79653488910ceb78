"""Files of a training, each written atomically, and the state of random generators.

``weights.safetensors`` holds the best weights, ``curve.jsonl`` a line per epoch, ``checkpoint.pt`` the state of an
unfinished training. Reading a checkpoint executes no code.
"""

from __future__ import annotations

import json
import random
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_file
from torch import nn

from fathom.base.errors import BadInput, RunFailed
from fathom.base.reading import check_file, file_exists
from fathom.base.reading.bounds import CHECKPOINT
from fathom.store.files import whole_file, write_text

State = dict[str, Any]
"""Tensors, numbers, texts, and lists and mappings of these: what a checkpoint may hold."""


@contextmanager
def whole_tensors(path: Path) -> Iterator[Path]:
    """Write a file atomically by torch or safetensors, which have their own errors for a full disk.

    :raises RunFailed: the disk is full or the folder cannot be written to.
    """
    try:
        with whole_file(path) as temporary:
            yield temporary
    except (RuntimeError, SafetensorError) as error:
        reason = error.__context__ if isinstance(error.__context__, OSError) else error  # torch fails again at the end
        raise RunFailed(f"cannot write {path}: {str(reason).splitlines()[0]}; what is finished is kept") from error


class TrainingFolder:
    """The files of one training."""

    def __init__(self, path: Path, signature: str = "") -> None:
        """:param signature: of what is trained; a checkpoint of something else is not read."""
        self.path, self.signature = path, signature
        self.weights, self._checkpoint = path / "weights.safetensors", path / "checkpoint.pt"

    def keep_weights(self, network: nn.Module) -> None:
        """Write the weights, the same bytes for the same values.

        :raises RunFailed: they cannot be written, such as to a full disk.
        """
        # Shared tensors once: save_model would list their other names in an order that differs each time.
        named = sorted(network.state_dict().items())
        once = {(value.data_ptr() or name, value.shape): (name, value.contiguous()) for name, value in reversed(named)}
        with whole_tensors(self.weights) as temporary:
            save_file(dict(once.values()), temporary)

    def keep_curve(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write the learning curve. :raises RunFailed: it cannot be written."""
        write_text(self.path / "curve.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    def keep_checkpoint(self, state: State) -> None:
        """Write a checkpoint. :raises RunFailed: it cannot be written; the previous one remains."""
        # Into a name, torch writes by itself, and does not say that a disk is full.
        with whole_tensors(self._checkpoint) as temporary, temporary.open("wb") as file:
            torch.save(state, file)

    def checkpoint(self, device: torch.device) -> State | None:
        """Read the checkpoint, if there is one, with its tensors on *device*."""
        if not file_exists(self._checkpoint):
            return None
        with self.taking_back():
            state = torch.load(self._checkpoint, map_location=device, weights_only=True)
            if not isinstance(state, dict):
                raise TypeError(f"found {type(state).__name__}")
        return state

    def remove(self) -> None:
        """Remove the folder, once its training is finished."""
        shutil.rmtree(self.path, ignore_errors=True)

    @contextmanager
    def taking_back(self) -> Iterator[None]:
        """Restore a checkpoint while inside. :raises BadInput: it is damaged, or of another training."""
        try:
            yield
        except Exception as error:  # whatever a stranger's file makes torch and the networks raise
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            raise BadInput(
                f"{self._checkpoint} is damaged, or of another training ({reason}): delete it to train from the "
                "beginning, or choose another --out"
            ) from error


def load_weights(network: nn.Module, file: Path) -> None:
    """Load the weights of a file. :raises BadInput: it is missing, damaged, or of another network."""
    check_file(file)
    try:
        load_model(network, str(file))
    except Exception as error:  # safetensors' own kinds of error differ between versions
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"{file} is damaged, or of another model: train it anew ({reason})") from error


def random_state() -> State:
    """Return the state of all generators that a training may draw from."""
    numpy_state: Any = np.random.get_state()
    kind, keys, *rest = numpy_state
    state = {"python": random.getstate(), "numpy": (kind, keys.tolist(), *rest), "torch": torch.get_rng_state()}
    return state | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def set_random_state(state: State) -> None:
    """Restore :func:`random_state`; generators that an older checkpoint lacks are not changed."""
    if "python" in state:
        random.setstate(state["python"])
        np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch" if "torch" in state else "cpu"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())


def published_tensors(path: Path, expected: str) -> dict[str, torch.Tensor]:
    """Read the tensors of someone else's checkpoint by name, or those below its key "model"; no code is executed.

    :param expected: what the file should be, for the message.
    :raises BadInput: no file, too large, or something else.
    """
    check_file(path)
    try:
        with zipfile.ZipFile(path) as packed:
            size = sum(entry.file_size for entry in packed.infolist())
        if size > CHECKPOINT.most:
            raise ValueError(CHECKPOINT.fault())
        content = torch.load(path, map_location="cpu", weights_only=True)
        tensors = content.get("model", content)
        if not tensors or not all(isinstance(tensor, torch.Tensor) for tensor in tensors.values()):
            raise TypeError("no tensors by name")
    except Exception as error:  # whatever a stranger's file makes zipfile and torch raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:100]
        raise BadInput(f"{path}: expected {expected}, found something else ({reason})") from error
    return {str(name): tensor for name, tensor in tensors.items()}
