"""Real models in the cache, for tests marked slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from fathom.data.fetch_model import model_folder


def real_model(name: str) -> Path:
    """Return the folder of a model of ``fathom model fetch``; skip the test if it was not fetched."""
    folder = model_folder(name)
    if not folder.is_dir():
        pytest.skip(f"needs the weights: fathom model fetch {name}")
    return folder
