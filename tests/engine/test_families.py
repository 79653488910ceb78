"""Every family of `transformers`: its own numbers, or one line that says why not."""

from __future__ import annotations

import warnings

import pytest
import transformers

from tests.zoo import FAMILIES, MULTIMODAL, OWN, UNBUILT, FamilyResult, seen

pytestmark = pytest.mark.slow

ALL = {**FAMILIES, **MULTIMODAL}
MAINSTAY = {
    "gpt2": "tree", "llama": "tree", "mistral": "tree", "qwen3": "tree", "gemma3_text": "tree", "deepseek_v3": "tree",
    "llama4_text": "states", "gpt_oss": "tree", "mamba": "states", "mamba2": "states", "jamba": "states",
    "falcon_h1": "states", "bamba": "states", "qwen3_next": "states", "qwen3_5_text": "states", "bloom": "states",
    "bert (masked)": "masked", "roberta (masked)": "masked", "modernbert (masked)": "masked", "t5 (pairs)": "pairs",
    "bart (pairs)": "pairs", "mistral3 (with images)": "tree", "qwen3_vl (with images)": "tree",
}  # fmt: skip
"""How some of the most used run."""
DOCUMENTED = "5.23."
"""The version of transformers of which the documents say what can be built."""


def look(name: str) -> FamilyResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return seen(name, ALL[name])


@pytest.mark.parametrize("name", ALL)
def test_its_own_numbers_or_one_line(name: str) -> None:
    """No traceback comes out of a family, and what is scored is what the model itself says."""
    found = look(name)
    if found.how == "not built":
        assert name in UNBUILT or not transformers.__version__.startswith(DOCUMENTED), found.why
        pytest.skip(found.why)
    if found.how == "refused":
        assert found.why.count("\n") == 0
        assert len(found.why) > 40
        assert "set is_decoder" not in found.why or not OWN.get(name, {}).get("is_decoder")  # what is done already
    else:
        assert found.off < 1e-4
    if name in MAINSTAY:
        assert found.how == MAINSTAY[name]
