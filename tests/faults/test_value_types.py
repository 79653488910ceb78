"""Any value of a JSON, JSON Lines or YAML file that Fathom or a library reads, replaced by one of another type.

Fathom uses the file, or refuses it in lines of its own; nothing else is ever raised. Draws are the same each time,
unless SEED is set, as ``make faults`` does.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import fathom as library
from fathom.base.errors import FathomError
from fathom.base.reading.download import sha256_of
from fathom.data import formats
from fathom.data.fetch import RECORD, fetch, one_source
from fathom.data.formats.checks import graph_notes
from fathom.data.options import FetchOptions
from fathom.plans.file import read_plan
from fathom.plans.record import changed_steps, read_record
from fathom.probes.run.imported import import_results
from fathom.results.datasets import data_tables
from fathom_build.worlds.build import read_manifest as read_world
from fathom_kgc.links.base import read_curve
from fathom_kgc.links.base import read_manifest as read_link
from tests.base.test_reading import within
from tests.conftest import build
from tests.logs import log, quiz, rows_of, write_bear
from tests.store.test_foreign_files import DATA, OLD, changed, whole, write

DRAWS = 5000 if "SEED" in os.environ else 2000
"""More in `make faults`, which sets a SEED."""
LONGEST_S = 60
VALUES = (None, True, 0, -1, 5, 2.5, 10**7, "text", "", "5", [], [None], [1], [["x"]], {}, {"a": [1]})
"""Replacements; one of the same type is not taken."""
MOST = 40
"""Most entries of one object or list, so that draws are not of vocabularies alone."""
WEIGHTS = {
    "GPT2LMHeadModel": 6,
    "LlamaForCausalLM": 3,
    "BertForMaskedLM": 4,
    "T5ForConditionalGeneration": 2,
    "adapter": 4,
    "plan": 6,
}
"""How often a case is drawn; the others once."""
CHAT = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
SENTENCES = ["The capital of France is Paris.", "The capital of Spain is Madrid."]
SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<mask>"]
FACTS = [{"subject": s, "relation": "capital", "answer": a} for s, a in (("France", "Paris"), ("Uganda", "Kampala"))]
Use = Callable[[Path], object]


# ---------------------------------------------------------------------------------------------------- what is changed


def by_bytes(**more: str) -> PreTrainedTokenizerFast:
    backend = Tokenizer(models.BPE(unk_token="<unk>"))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(SENTENCES, trainers.BpeTrainer(special_tokens=SPECIAL, initial_alphabet=alphabet))
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return with_special(backend, **more)


def by_words() -> PreTrainedTokenizerFast:
    words = sorted({word for sentence in SENTENCES for word in sentence.replace(".", " .").split()})
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return with_special(backend)


def with_special(backend: Tokenizer, **more: str) -> PreTrainedTokenizerFast:
    names = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names, **more)


SHAPES = {
    "GPT2LMHeadModel": {"n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 64},
    "LlamaForCausalLM": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
                         "intermediate_size": 16, "max_position_embeddings": 64},
    "BertForMaskedLM": {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
                        "max_position_embeddings": 64},
    "T5ForConditionalGeneration": {"d_model": 8, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2,
                                   "decoder_start_token_id": 3},
}  # fmt: skip
MODEL_FILES = ("config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json")
ABSENT: dict[str, tuple[str, ...]] = {
    "config.json": ("auto_map", "num_labels", "quantization_config", "id2label", "sliding_window", "is_decoder",
                    "is_encoder_decoder", "layer_types", "text_config", "rope_parameters", "_attn_implementation"),
    "tokenizer_config.json": ("added_tokens_decoder", "auto_map", "extra_special_tokens", "padding_side",
                              "additional_special_tokens", "model_input_names", "add_bos_token"),
    "adapter_config.json": ("layers_pattern", "oft_block_size", "init_weights", "adapters", "unknown"),
    "manifest.json": ("notes", "shows"),
}  # fmt: skip
"""Keys that the files lack and libraries read, to be added."""


def write_model(folder: Path, name: str) -> None:
    tokenizer = by_words() if name.startswith(("Bert", "T5")) else by_bytes()
    shape = SHAPES[name] | {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3, "vocab_size": len(tokenizer)}
    build(name, **shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if name.endswith(("LMHeadModel", "CausalLM")):
        file = folder / "tokenizer_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"chat_template": CHAT}))


def write_adapter(folder: Path) -> None:
    """An adapter, next to its model."""
    peft = pytest.importorskip("peft", reason="needs the extra peft")
    write_model(folder / "model", "LlamaForCausalLM")
    network = AutoModelForCausalLM.from_pretrained(folder / "model")
    config = peft.LoraConfig(
        r=2, target_modules=["q_proj", "v_proj"], rank_pattern={"v_proj": 1}, alpha_pattern={"v_proj": 1}
    )
    peft.get_peft_model(network, config).save_pretrained(folder)


def write_world(folder: Path) -> None:
    content = {"world": "base", "seed": 0, "source": {"content_hash": "x"}, "options": {"shortest_mention": 2}}
    (folder / "manifest.json").write_text(json.dumps(content))


def write_fetched(folder: Path) -> None:
    file = folder / "facts.tsv"
    file.write_text("France\tcapital\tParis\n")
    record = {"name": "mine", "files": {"facts.tsv": {"sha256": sha256_of(file), "from": "x"}}, "reads": [""]}
    (folder / RECORD).write_text(json.dumps(record))


def evaluate(folder: Path, data: Path, **options: Any) -> None:
    model = library.load_model(str(folder))
    chat = model.attention == "causal" and model.tokenizer.chat_template is not None
    library.probe("statement", model, str(data), folder.with_name("run"), False, chat=chat, **options)


def use_adapter(folder: Path) -> None:
    library.load_model(str(folder / "model"), adapter=str(folder))


def use_data(folder: Path) -> None:
    queryset, faults = formats.examine(folder)
    assert all("\n" not in fault for fault in faults.found)
    if queryset is not None:
        data_tables(queryset, None)
        if queryset.graph is not None:
            list(graph_notes(folder, queryset.graph))


def use_run(folder: Path, name: str) -> None:
    whole(folder)
    library.write_report([OLD / name, folder], folder.with_name("report.html"))


def use_link(folder: Path) -> None:
    read_link(folder)
    read_curve(folder)


def use_plan(folder: Path) -> None:
    plan = read_plan(folder / "plan.yaml", folder / "out")
    changed_steps(plan.steps, read_record(plan.steps, folder / "out"))


def use_fetched(folder: Path) -> None:
    fetch(one_source("http://127.0.0.1:1/mine.tsv", "mine"), FetchOptions(out=folder))


def use_log(folder: Path, data: Path) -> None:
    import_results(folder, folder.with_name("run"), str(data))


PLAN = {
    "title": "Two models",
    "models": {"a": "model", "b": {"model": "model", "dtype": "float32"}},
    "data": {"geo": "geography", "few": {"data": "geography", "relations": "capital", "limit": 3}},
    "runs": {
        "statement": {"probe": "statement", "templates": 0, "matrix": {"reduction": ["sum", "mean"]}},
        "vectors": {"probe": "embedding", "models": "a", "shots": 2},
    },
    "studies": {"agreement": {"runs": ["statement/a", "vectors"], "each": "data", "k": 5}},
}


def write_plan(folder: Path) -> None:
    """A plan, and its record as if both runs had begun."""
    (folder / "plan.yaml").write_text(yaml.safe_dump(PLAN))
    write_model(folder / "model", "GPT2LMHeadModel")
    plan = read_plan(folder / "plan.yaml", folder / "out")
    record = {"steps": {step.name: step.identity for step in plan.steps}, "models": {"model": [["config.json", 1, 2]]}}
    (folder / "out").mkdir()
    (folder / "out" / "plan.json").write_text(json.dumps(record))


class Case:
    """A folder, the places of all values in its files, and what reads it."""

    def __init__(self, folder: Path, use: Use, *patterns: str) -> None:
        self.folder, self.use = folder, use
        files = [file for pattern in patterns for file in sorted(folder.glob(pattern))]
        self.values = {file.relative_to(folder): read_values(file) for file in files}
        self.places = {
            file: [(number, where) for number, value in enumerate(values) for where in places(value, file.name)]
            for file, values in self.values.items()
        }

    def changed(self, to: Path, file: Path, number: int, where: tuple[Any, ...], value: object) -> Path:
        """Copy the folder with one value of a file replaced."""
        copy = Path(shutil.copytree(self.folder, to))
        values = list(self.values[file])
        values[number] = changed(values[number], where, value)
        text = yaml.safe_dump(values[0]) if file.suffix == ".yaml" else "\n".join(map(json.dumps, values))
        (copy / file).write_text(text)
        return copy


def read_values(file: Path) -> list[Any]:
    """Read one value, or one of each line."""
    text = file.read_text()
    if file.suffix == ".yaml":
        return [yaml.safe_load(text)]
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return list(map(json.loads, text.splitlines()))


def places(content: Any, name: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places of all values, of few in a vocabulary, and of absent keys."""
    yield above
    entries = list(content.items() if isinstance(content, dict) else enumerate(content) if content else ())
    for key, value in entries[:MOST]:
        yield from places(value, "", (*above, key)) if isinstance(value, dict | list) else [(*above, key)]
    yield from ((key,) for key in ABSENT.get(name, ()))


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("cases")
    (root / "facts").mkdir()
    (root / "facts/facts.jsonl").write_text("".join(f"{json.dumps(fact)}\n" for fact in FACTS))
    relation = {"relation": "capital", "templates": ["The capital of [X] is [Y]."]}
    (root / "facts/relations.jsonl").write_text(json.dumps(relation))
    found = {}

    def add(name: str, make: Callable[[Path], object], use: Use, *patterns: str) -> None:
        (root / name).mkdir()
        make(root / name)
        found[name] = Case(root / name, use, *patterns)

    for name in SHAPES:
        use = partial(evaluate, data=root / "facts")
        add(name, partial(write_model, name=name), use, *MODEL_FILES)
    add("adapter", write_adapter, use_adapter, "adapter_config.json")
    for name in DATA:
        add(name, partial(write, name=name), use_data, "**/*.json", "**/*.jsonl")
    for name in ("statement-causal", "ontology", "choice", "generation", "link"):
        add(
            f"run-{name}",
            partial(shutil.copytree, OLD / name, dirs_exist_ok=True),
            partial(use_run, name=name),
            "**/*.json",
        )
    add("links", partial(shutil.copytree, OLD / "links", dirs_exist_ok=True), use_link, "*.json", "*.jsonl")
    add("plan", write_plan, use_plan, "plan.yaml", "out/plan.json")
    add("world", write_world, read_world, "manifest.json")
    use = partial(use_log, data=write_bear(root / "bear"))
    add("lm-pub-quiz", partial(quiz, rows=rows_of()), use, "*.json", "*.jsonl")
    add("lm-evaluation-harness", log, use, "*/*.json", "*/*.jsonl")
    add("fetched", write_fetched, use_fetched, RECORD)
    return {name: case for name, case in found.items() if any(case.places.values())}


@pytest.mark.slow
def test_a_value_of_another_type_is_used_or_refused(cases, tmp_path_factory):
    root = tmp_path_factory.mktemp("draws")
    kinds = [name for name in cases for _ in range(WEIGHTS.get(name, 1))]

    @settings(
        max_examples=DRAWS,
        deadline=None,
        database=None,
        derandomize="SEED" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def draw(data):
        case = cases[data.draw(st.sampled_from(kinds))]
        file = data.draw(st.sampled_from(list(case.places)))
        number, where = data.draw(st.sampled_from(case.places[file]))
        value = data.draw(st.sampled_from(VALUES))
        with tempfile.TemporaryDirectory(dir=root) as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            copy = case.changed(Path(folder) / "mine", file, number, where, value)
            with suppress(FathomError, OSError), within(LONGEST_S):
                case.use(copy)

    draw()
