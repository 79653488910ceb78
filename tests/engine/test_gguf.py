"""Models in GGUF files: the scores of the folder with the same weights, and faults in one line each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

pytest.importorskip("gguf", reason="needs the extra gguf")
pytest.importorskip("accelerate", reason="needs the extra gguf")

import gguf
from tokenizers.pre_tokenizers import ByteLevel

import fathom
from fathom.base.errors import BadInput, MissingExtra
from fathom.base.reading import Unreadable
from fathom.base.reading.gguf import gguf_header
from fathom.engine.models.checks import token_log_probs
from fathom.engine.models.hub import LIBRARIES
from fathom.engine.models.loading import load, load_shape
from fathom.engine.models.parts import load_tokenizer
from fathom.probes.models import model_hash
from fathom.probes.statement import StatementOptions
from fathom.training.small import learn_tokenizer
from tests.conftest import save_llama
from tests.gguf_model import write_gguf
from tests.messages import mentions, stated
from tests.real import real_model

WORDS = "Peru Chad Lima Paris The capital of is in a town by the sea, said 1998 and 12 or 85 Asia Europe Africa"
TEXTS = ["The capital of Peru is Lima.", " 1998 and  12", "Zürich – said\n\n<s> Ånd 漢", "Lima", ""]


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Path:
    """A random model of Llama's shape with byte-level BPE, a BOS token and a chat template."""
    tokenizer = learn_tokenizer([WORDS] * 3, 330, "causal")
    tokenizer.backend_tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)  # which GGUF files cannot state
    return save_llama(tmp_path_factory.mktemp("llama"), tokenizer, hidden_size=64, intermediate_size=64)


@pytest.fixture(scope="module")
def file(plain: Path, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(plain, file, "Q4_1")
    return file


@pytest.fixture(scope="module")
def dequantised(plain: Path, tmp_path_factory) -> Path:
    """The folder of the same model with the numbers that its quantised weights stand for."""
    folder = tmp_path_factory.mktemp("dequantised") / "model"
    shutil.copytree(plain, folder)
    network = load(str(plain)).network
    kind = gguf.GGMLQuantizationType.Q4_1
    for weight in network.parameters():
        if weight.dim() == 2:
            weight.data = torch.tensor(gguf.dequantize(gguf.quantize(weight.numpy(force=True), kind), kind))
    network.save_pretrained(folder)
    return folder


def test_scores_are_those_of_the_dequantised_weights(file: Path, dequantised: Path, plain: Path) -> None:
    model, expected = load(file), load(dequantised)
    ids = expected.tokenizer(TEXTS[0]).input_ids
    scores = token_log_probs(expected, ids)
    torch.testing.assert_close(token_log_probs(model, ids), scores, rtol=0, atol=0, equal_nan=True)
    assert (token_log_probs(load(plain), ids) - scores)[1:].abs().max() > 0.01, "quantisation must show"
    assert model.dequantised_from == "Q4_1"
    assert model.identity.dtype == "float32"
    assert expected.dequantised_from is None


def test_the_precision_after_dequantisation_is_that_of_dtype(file: Path, dequantised: Path) -> None:
    for dtype in ("bfloat16", "auto"):
        model = load(file, dtype=dtype)
        assert model.dtype == (torch.bfloat16 if dtype == "bfloat16" else torch.float32)
        for name, weight in load(dequantised, dtype=dtype).network.state_dict().items():
            assert torch.equal(model.network.state_dict()[name], weight), name


def test_the_tokenizer_gives_the_ids_of_the_folder(file: Path, plain: Path) -> None:
    found, expected = load_tokenizer(str(file)), load_tokenizer(str(plain))
    for text in TEXTS:
        for special in (False, True):
            ids = expected(text, add_special_tokens=special).input_ids
            assert found(text, add_special_tokens=special).input_ids == ids, text
    assert (found.bos_token_id, found.eos_token_id) == (expected.bos_token_id, expected.eos_token_id)


def test_a_probe_of_the_file_of_its_folder_and_of_the_weights(file: Path, dequantised: Path, fathom_run) -> None:
    runs = [fathom_run(model) for model in (file, file.parent, dequantised)]
    tables = [run.predictions().drop_columns(["query_id"]) for run in runs]
    assert tables[0].equals(tables[2])
    assert tables[1].equals(tables[2])
    digests = [run.manifest["identity"]["model"]["content_hash"] for run in runs]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0] == model_hash(str(file), StatementOptions())


@pytest.fixture
def fathom_run(tmp_path: Path):
    def run(model: Path):
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        return fathom.probe("statement", model=str(model), data="geography", limit=5, templates=(0,), out=out).folder

    return run


def test_the_run_names_the_quantisation(file: Path, fathom, tmp_path: Path) -> None:
    command = ("probe", "statement", "--model", file, "--data", "geography", "--limit", 5, "--out", tmp_path / "run")
    code, _, said = fathom(*command, "--dry-run")
    assert code == 0, said
    code, printed, said = fathom(*command)
    assert code == 0, said
    assert "weights: dequantised from Q4_1" in printed
    code, _, said = fathom(*command)
    assert code == 0, said


def test_the_shape_has_the_weights_number(file: Path, dequantised: Path) -> None:
    assert load_shape(str(file)).parameters == load(dequantised).parameters


def test_a_renamed_file_is_the_same_model(file: Path, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path / "another.gguf")
    options = StatementOptions()
    assert model_hash(str(tmp_path / "another.gguf"), options) == model_hash(str(file), options)


def test_files_next_to_it_are_not_read(file: Path, tmp_path: Path) -> None:
    """`transformers` would take the class of the tokenizer from them."""
    moved = tmp_path / file.name
    shutil.copy(file, moved)
    (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "x", "tokenizer_class": "BertTokenizer"}')
    assert load_tokenizer(str(moved))(TEXTS[0]).input_ids == load_tokenizer(str(file))(TEXTS[0]).input_ids
    with pytest.raises(BadInput, match=mentions("config.json", moved)):
        load(tmp_path)


def test_a_tokenizer_from_elsewhere(file: Path, plain: Path, tmp_path: Path) -> None:
    write_gguf(plain, tmp_path / "a.gguf", tokenizer=False)
    with pytest.raises(BadInput, match=mentions("a.gguf", "--tokenizer")):
        load(tmp_path / "a.gguf")
    model = load(tmp_path / "a.gguf", tokenizer=str(file))
    assert model.dequantised_from is None
    assert model.tokenizer(TEXTS[0]).input_ids == load_tokenizer(str(plain))(TEXTS[0]).input_ids


def test_what_is_no_whole_model(file: Path, plain: Path, fathom, tmp_path: Path) -> None:
    whole = file.read_bytes()
    (tmp_path / "text.gguf").write_text("no model")
    (tmp_path / "empty.gguf").touch()
    for name, size in {"cut.gguf": len(whole) - 100, "head.gguf": 2000, "start.gguf": 10}.items():
        (tmp_path / name).write_bytes(whole[:size])
    shutil.copy(file, tmp_path / "part-00001-of-00003.gguf")
    write_gguf(plain, tmp_path / "sight.gguf", architecture="clip")
    write_gguf(plain, tmp_path / "speech.gguf", architecture="whisper")
    expected = {
        "text.gguf": "GGUF",
        "empty.gguf": "GGUF",
        "cut.gguf": f"{len(whole) - 100:,}",
        "head.gguf": "2,000",
        "start.gguf": "again",
        "part-00001-of-00003.gguf": ("3", "--merge"),
        "sight.gguf": ("clip", "--server"),
        "speech.gguf": ("whisper", "--server"),
    }
    for name, parts in expected.items():
        command = ("--model", tmp_path / name, "--data", "geography", "--out", tmp_path / "run")
        code, _, said = fathom("probe", "statement", *command)
        assert code == 2, said
        assert stated(said, "error: ", name, parts), said
        assert said.count("error: ") == 1
        assert not (tmp_path / "run").exists()
    with pytest.raises(BadInput, match=mentions("cut.gguf", "8")):
        load(tmp_path)


def test_missing_libraries(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in LIBRARIES:
        with monkeypatch.context() as patch:
            patch.setitem(__import__("sys").modules, library, None)
            with pytest.raises(MissingExtra, match=mentions(library, ".[gguf]")):
                load(file)


def test_quantised_twice(file: Path) -> None:
    with pytest.raises(BadInput, match=mentions("--quantize 4bit")):
        load(file, quantize="4bit")


@pytest.mark.parametrize("noise", range(3))
def test_damaged_headers_are_said(file: Path, tmp_path: Path, noise: int) -> None:
    """If bytes are changed, the header is read or its fault is reported, without a crash or an endless loop."""
    whole = bytearray(file.read_bytes()[:8000])
    for place in range(noise, 400, 3):
        bytes_ = whole.copy()
        bytes_[place] ^= 0xFF
        damaged = tmp_path / "damaged.gguf"
        damaged.write_bytes(bytes_)
        with pytest.raises(Unreadable, match="again"):
            gguf_header(damaged)


REAL = {
    "SmolLM2-135M-Instruct": ("Q4_1", -2.26905, [38634, 314, 260, 3575, 282, 4649, 30]),
    "Gemma-3-270m": ("Q4_K_M", -2.78789, [2, 50429, 563, 506, 5279, 529, 7001, 236761]),
}
"""Quantisation, ids of a sentence, and their mean log-probability by transformers from a folder of the same numbers."""


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_weights(name: str) -> None:
    quantisation, mean, ids = REAL[name]
    model = load(real_model(name))
    assert model.dequantised_from == quantisation
    assert model.tokenizer("Paris is the capital of France.").input_ids == ids
    assert token_log_probs(model, ids)[1:].mean().item() == pytest.approx(mean, abs=1e-4)
