"""What several test files share: the reference data, real tokenizers, and models small enough to build on the spot."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before transformers is imported: no test may reach for the network

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import BertTokenizerFast, GPT2TokenizerFast, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from fathom.engine.models.base import Attention, Identity
from fathom.engine.models.local import LocalModel

torch.set_num_threads(1)  # the models are so small that threads would only wait for one another


LONGEST = (
    "presets_cells", "plans", "value_types", "ray", "search", "entailment", "docs", "parity", "grid", "families",
    "report_browser", "likelihoods", "golden", "entailment_causal", "worlds", "parts", "chains", "server",
    "reasoning", "choice", "links_ultra", "links_pykeen", "outputs", "site",
)  # fmt: skip
"""Tests by file, the longest first: where several processes share the files, none is left alone with one of these.
Those that mostly wait (Ray, processes, a browser) stand apart, so that somebody works meanwhile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.fixture(autouse=True, scope="module")
def _servers_end() -> Iterator[None]:
    """One whose socket is closed before it is shut down asks for callers on whatever file has that number next, without
    a pause and to the end of the process: it takes a core from all tests behind it."""
    yield
    serving = [thread for thread in threading.enumerate() if "(serve_forever)" in thread.name]
    for thread in serving:
        thread.join(1)
    assert not any(thread.is_alive() for thread in serving), "a server was not shut down"


def find_shared_data() -> Path | None:
    """The reference data: ``FATHOM_DATA``, or ``shared/data`` next to the repository."""
    given = os.environ.get("FATHOM_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def shared_data() -> Path:
    folder = find_shared_data()
    if folder is None:
        pytest.skip("needs the reference data: set FATHOM_DATA to its folder")
    return folder


def load_gpt2(data: Path) -> PreTrainedTokenizerBase:
    return GPT2TokenizerFast.from_pretrained(data / "tokenizers" / "gpt2")


def load_roberta(data: Path) -> PreTrainedTokenizerBase:
    file = data / "tokenizers" / "roberta-base" / "tokenizer.json"
    return PreTrainedTokenizerFast(
        tokenizer_file=str(file), bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>"
    )


def load_bert_cased(data: Path) -> PreTrainedTokenizerBase:
    return BertTokenizerFast.from_pretrained(data / "tokenizers" / "bert-base-cased", do_lower_case=False)


def load_bert_uncased(data: Path) -> PreTrainedTokenizerBase:
    return BertTokenizerFast.from_pretrained(data / "tokenizers" / "bert-base-uncased")


def load_neox(data: Path) -> PreTrainedTokenizerBase:
    """As its folder has it, but for the names of its special tokens; it has no padding token."""
    file = data / "tokenizers" / "gpt-neox-20b" / "tokenizer.json"
    return PreTrainedTokenizerFast(tokenizer_file=str(file), bos_token="<|endoftext|>", eos_token="<|endoftext|>")


@pytest.fixture(scope="session")
def gpt2(shared_data: Path) -> PreTrainedTokenizerBase:
    return load_gpt2(shared_data)


@pytest.fixture(scope="session")
def roberta(shared_data: Path) -> PreTrainedTokenizerBase:
    return load_roberta(shared_data)


@pytest.fixture(scope="session")
def bert_cased(shared_data: Path) -> PreTrainedTokenizerBase:
    return load_bert_cased(shared_data)


@pytest.fixture(scope="session")
def bert_uncased(shared_data: Path) -> PreTrainedTokenizerBase:
    return load_bert_uncased(shared_data)


@pytest.fixture(scope="session")
def neox(shared_data: Path) -> PreTrainedTokenizerBase:
    return load_neox(shared_data)


TINY_VOCABULARY = 509
TINY_SPECIAL = 4
"""How many ids of the tiny vocabulary are special: <s>, <pad>, </s>, <mask>, as RoBERTa numbers them."""


def tiny_tokenizer() -> PreTrainedTokenizerBase:
    """Words w4, w5, … with the ids 4, 5, …; for tests that make their own ids and need no files."""
    words = ["<s>", "<pad>", "</s>", "<mask>", *(f"w{i}" for i in range(TINY_SPECIAL, TINY_VOCABULARY))]
    backend = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="<mask>"))
    backend.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>"
    )


def make_local(
    network: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase | None = None,
    attention: Attention = Attention.CAUSAL,
) -> LocalModel:
    """*network* behind the seam. It is taken over: layers are exchanged in place."""
    identity = Identity(type(network).__name__, None, str(network.dtype), "test")
    return LocalModel(network, tokenizer or tiny_tokenizer(), attention, identity)


def build(name: str, *, seed: int = 0, noise: float = 0.1, **options: Any) -> transformers.PreTrainedModel:
    """A model class of `transformers` with random weights and the configuration *options*.

    :param noise: added to every parameter, so that no bias is zero and no norm is one, and a path that drops one of
        them, or mixes up positions, shows in the scores.
    """
    torch.manual_seed(seed)
    kind = getattr(transformers, name)
    config = kind.config_class(**options)
    # On the configuration rather than through an argument: not every family takes it.
    for field in ("initializer_range", "init_std"):
        if hasattr(config, field):
            setattr(config, field, 0.2)
    network = kind(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=noise)
    return network


def save_llama(folder: Path, tokenizer: PreTrainedTokenizerBase, **sizes: int) -> Path:
    """Save a random model of Llama's shape, of two layers, with its tokenizer."""
    ids = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512}
    build("LlamaForCausalLM", vocab_size=len(tokenizer), **sizes, **ids).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def own_log_probs(network: torch.nn.Module, ids: Sequence[int]) -> torch.Tensor:
    """What *network* itself says of a causal sequence, called as any user would; shape (n − 1,)."""
    tokens = torch.tensor([list(ids)])
    with torch.no_grad():
        log_probs = torch.log_softmax(network(input_ids=tokens).logits[0, :-1].float(), dim=-1)
    return log_probs.gather(1, tokens[0, 1:, None])[:, 0]


def write_graph_folder(
    folder: Path, triples: Mapping[str, Sequence[str]], entities: Sequence[str], relations: str
) -> Path:
    """A small graph in the layout of KG-BERT. :param triples: lines of each split. :param entities: id, name, text."""
    folder.mkdir()
    for split, lines in triples.items():
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    (folder / "entity2text.txt").write_text("\n".join(entities) + "\n")
    (folder / "relation2text.txt").write_text(relations)
    return folder


@pytest.fixture
def quiz(tmp_path: Path) -> Path:
    """A folder of multiple choice questions."""
    from tests.quiz import make_quiz

    return make_quiz(tmp_path / "quiz")


@pytest.fixture
def serve(monkeypatch):
    """Makes scripted servers on loopback and closes them."""
    pytest.importorskip("openai", reason="needs the extra api")
    from tests.engine.test_server import Script

    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    made = []

    def make(*script, **options):
        made.append(Script(*script, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def fathom(monkeypatch, capsys):
    """Calls the command line: (exit code, standard output, standard error)."""
    from fathom.cli import main

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fathom", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        output = capsys.readouterr()
        return code, output.out, output.err

    return call
