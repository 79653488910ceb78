"""The reference runs that ship with the package: ``make references`` fetches the models and makes the runs again.

Typed again after an interruption, it resumes. ``python -P benchmarks/references.py NAME`` makes the run of one model.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

import fathom
from fathom.data.fetch_model import fetch_model, model_folder, packaged_model
from fathom.data.options import FetchModelOptions
from fathom.store.folder import REFERENCES

MODELS = ("SmolLM2-135M-Instruct", "Gemma-3-270m")
WORK = Path(__file__).parents[1] / "build" / "references"


def make(name: str) -> None:
    """Evaluate a model on geography. A run names its model as the catalogue does, and no machine."""
    if not model_folder(name).is_dir():
        fetch_model(packaged_model(name), FetchModelOptions(name=name))
    os.chdir(model_folder(name).parent)
    model = fathom.load_model(name, device="cpu")  # by its name: a loaded model leaves no command with paths
    run = fathom.probe("statement", model, "geography", WORK / name, templates=(0,)).folder
    run.add_circumstances(host="", platform=platform.system())
    shutil.rmtree(REFERENCES / name, ignore_errors=True)
    shutil.copytree(run.path, REFERENCES / name, ignore=shutil.ignore_patterns(".*"))
    shutil.rmtree(run.path)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        make(name)
