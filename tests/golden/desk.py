"""Small models and small data for the golden runs, the same on every machine: nothing here is drawn by torch or
trained by a library, and nothing of Fathom is used, so that what stands behind a kept run can be made again later."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from tests.wikidata import ItemClaim, item, write_dump

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

# ------------------------------------------------------------------------------------------------------------- data

CAPITALS = {
    "France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Peru": "Lima", "Norway": "Oslo", "Ghana": "Accra",
    "Chad": "N'Djamena", "Uganda": "Kampala", "Mauritius": "Port Louis", "Bolivia": "Sucre",
}  # fmt: skip
CONTINENTS = {
    "France": "Europe", "Italy": "Europe", "Spain": "Europe", "Peru": "South America", "Norway": "Europe",
    "Ghana": "Africa", "Chad": "Africa", "Uganda": "Africa", "Mauritius": "Africa", "Bolivia": "South America",
}  # fmt: skip
TEMPLATES = {
    "capital": ["The capital of [X] is [Y].", "[Y] is the seat of [X]'s government.", "of [X] one says ([Y]) often"],
    "continent": ["[X] lies in [Y].", "[Y] is where one finds [X]."],
}
ENTITIES = {
    "pa": ("Paris", "an old city on the Seine, the capital of France"),
    "fr": ("France", "a land in the west of Europe"),
    "ro": ("Rome", "a city on the Tiber in Italy"),
    "it": ("Italy", "a land shaped like a boot"),
    "ma": ("Madrid", "a city far from the sea"),
    "sp": ("Spain", "a land between two seas"),
    "li": ("Lima", "a city by the sea in Peru"),
    "pe": ("Peru", "a land of high mountains"),
    "os": ("Oslo", "a city at the end of a fjord"),
    "no": ("Norway", "a land of fjords"),
    "ac": ("Accra", "a city on the gulf"),
    "gh": ("Ghana", "a land of gold near Chad"),
    "eu": ("Europe", "a part of the world"),
    "af": ("Africa", "a part of the world, south of Europe"),
    "sa": ("South America", ""),
    "st": ("Port Louis", "a harbour"),
}
TRIPLES = {
    "train": [
        "pa cap fr", "ro cap it", "ma cap sp", "li cap pe", "fr in eu", "it in eu", "sp in eu", "pe in sa", "gh in af",
        "pa in fr", "ro in it", "ma in sp", "os in no", "ac in gh", "fr near it", "sp near fr", "it near fr",
        "no near eu", "st in af", "pa twin ro", "ro twin ma", "os twin pa", "ac twin li", "li twin os",
    ],
    "dev": ["os cap no", "fr near sp", "ma twin ac"],
    "test": ["ac cap gh", "no in eu", "li in pe", "it near sp", "ma twin pa"],
}  # fmt: skip
RELATIONS = {"cap": "capital of", "in": "lies in", "near": "is near", "twin": "twin town of"}
WORDS = (
    "What is the type of it if one has superclass does imply Answer Question Options One has to be particular a "
    "Therefore implies the question knows answer with an option letter and a description of relation inverse head "
    "tail predict candidates triples Tokyo Cairo Old Harbour Atlantis penicillin aspirin thins blood treats fever "
    "lithium which or not who where are is was were has class by at for from into"
)  # fmt: skip


def lines(path: Path, rows: Iterable[Any]) -> None:
    """Texts as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def make_towns(folder: Path) -> None:
    """Two relations, with templates and natural sentences; a fact with two answers, one with another known answer,
    one without a subject."""
    facts: list[dict[str, Any]] = []
    for number, (land, town) in enumerate(CAPITALS.items()):
        said = [f"People of {land} often travel to [Y] by train.", {"text": f"In {land}, [Y] rules.", "surface": town}]
        fact = {"subject": land, "relation": "capital", "answer": town, "groups": {"half": "12"[number % 2]}}
        facts.append(fact if land == "Chad" else fact | {"sentences": said[: 1 + number % 2]})
    del facts[-1]["answer"]
    facts[-1] |= {"answers": ["Sucre", "La Paz"]}
    facts[2] |= {"known": ["Lima"]}
    facts.append({"subject": "", "relation": "capital", "answer": "Oslo", "groups": {"half": "1"}})
    for land, part in CONTINENTS.items():
        facts.append({"subject": land, "relation": "continent", "answer": part, "groups": {"half": "2"}})
    lines(folder / "facts.jsonl", facts)
    kinds = [{"relation": name, "templates": texts, "domains": ["Geographic"]} for name, texts in TEMPLATES.items()]
    lines(folder / "relations.jsonl", kinds)
    lines(folder / "dataset.json", [{"name": "towns", "version": "3", "licence": "CC0-1.0"}])


def make_graph(folder: Path) -> None:
    for split, triples in TRIPLES.items():
        lines(folder / f"{split}.tsv", ("\t".join(triple.split()) for triple in triples))
    lines(folder / "entity2text.txt", (f"{id_}\t{name}\t{said}" for id_, (name, said) in ENTITIES.items()))
    lines(folder / "relation2text.txt", (f"{id_}\t{name}" for id_, name in RELATIONS.items()))


def make_wikidata(folder: Path) -> None:
    """What ``fathom build bear`` reads: lands with their capitals and continents, and what must not come of them."""
    folder.mkdir()
    ids = {name: 100 + place for place, name in enumerate([*CAPITALS.values(), *CONTINENTS.values(), "La Paz"])}
    items = [item(number, name, links=number % 50) for name, number in ids.items()]
    for place, land in enumerate(CAPITALS):
        said = [ItemClaim("P36", ids[CAPITALS[land]], begun="1950"), ItemClaim("P30", ids[CONTINENTS[land]])]
        items.append(item(200 + place, land, said, links=40 - place))
    items.append(item(300, "Egypt", [ItemClaim("P30", ids["Africa"], over="1900")], links=50))
    items.append(item(301, "Japan", [ItemClaim("P30", ids["Africa"]), ItemClaim("P30", ids["Europe"])], links=50))
    items.append(item(302, "Cairo in Africa", [ItemClaim("P30", ids["Africa"])], links=50))
    write_dump(folder / "dump.json", items)
    relations = [
        {"property": p, "templates": TEMPLATES[of][:2]} for p, of in (("P36", "capital"), ("P30", "continent"))
    ]
    few = {"instances": 6, "least_answers": 2, "most_answers": 3, "least_per_answer": 2, "most_per_answer": 3}
    plan = {
        "relations": relations,
        "small": few | {"one_to_one": 4},
        "big": few | {"one_to_one": 7},
    }
    (folder / "plan.yaml").write_text(json.dumps(plan), encoding="utf-8")


def make_texts(folder: Path) -> None:
    """What ``fathom build cloze`` reads."""
    said = [
        "Aspirin thins the blood. It treats fever.",
        "Lithium calms; aspirin and lithium do not mix.",
        "Tin shines.",
    ]
    said += ["Penicillin treats fever.", "One may not mix tin and penicillin. Penicillin is old."]
    lines(folder / "notes.txt", said)
    lines(folder / "chemicals.tsv", ["5\taspirin\tacetylsalicylic acid", "3\ttin", "2\tlithium", "9\tpenicillin"])


PLAN = """
data: {graph: {data: data/graph, worlds: [base, anonymised-er], limit: 3}}
runs:
  TransE: {predictor: TransE, data: graph/base, epochs: 2, dimension: 8, validate_every: 1}
  simkgc: &simkgc {predictor: simkgc, weights: models/masked, epochs: 2, batch_size: 8, learning_rate: 0.001}
  simkgc-other: {<<: *simkgc, weights: models/masked-other, random_from: simkgc}
studies:
  memory: {line: TransE, contrasts: [[simkgc, simkgc-other]]}
"""


def texts() -> list[str]:
    """All texts that the models' vocabularies are made of."""
    town = (EXAMPLES / "town.ttl").read_text(encoding="utf-8")
    found = [WORDS, *CAPITALS, *CAPITALS.values(), *CONTINENTS.values(), "La Paz Japan Egypt Tokyo Cairo"]
    found += [text for of in TEMPLATES.values() for text in of]
    found += ["People of often travel to by train. In, rules. is ruled from is a town in", *RELATIONS.values()]
    found += [f"{name} {said}" for name, said in ENTITIES.values()]
    found += re.findall(r'"([^"]+)"@en', town)
    return [*found, (EXAMPLES / "town-patterns.tsv").read_text(encoding="utf-8")]


# ----------------------------------------------------------------------------------------------------------- models


def words() -> list[str]:
    return sorted({word for text in texts() for word in re.findall(r"[A-Za-z]+", text)})


def added(tokens: Sequence[str]) -> list[dict[str, Any]]:
    """A mask that takes the space before it along, as RoBERTa's does."""
    return [
        {
            "id": place, "content": token, "single_word": False, "lstrip": token == "<mask>", "rstrip": False,
            "normalized": False, "special": True,
        }
        for place, token in enumerate(tokens)
    ]  # fmt: skip


def around(before: str, behind: str, ids: dict[str, int]) -> dict[str, Any]:
    """The processor that puts special tokens around a text, and between two texts."""

    def special(token: str, kind: int) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": token, "type_id": kind}}] if token else []

    def part(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    single = [*special(before, 0), part("A", 0), *special(behind, 0)]
    used = {token: {"id": token, "ids": [ids[token]], "tokens": [token]} for token in (before, behind) if token}
    pair = [*single, part("B", 1), *special(behind, 1)]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": used}


def byte_pairs(before: str, behind: str) -> tuple[dict[str, Any], dict[str, str]]:
    """GPT-2's kind: up to five letters of a known word are one token, with the space before it or without.

    :returns: what tokenizer.json says, and the special tokens by their role.
    """
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    shown = [chr(code) for code in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]
    merges: dict[tuple[str, str], None] = {}
    for start in ("Ġ", ""):
        for length in range(1 if start else 2, 6):
            for word in words():
                if len(word) >= length:
                    merges[start + word[: length - 1], word[length - 1]] = None
    vocabulary = dict.fromkeys((*specials, *shown, *map("".join, merges)))
    ids = {token: place for place, token in enumerate(vocabulary)}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added(specials), "normalizer": None,
        "pre_tokenizer": byte_level, "decoder": byte_level,
        "post_processor": around(before, behind, ids) if behind else byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": ids, "merges": [list(pair) for pair in merges],
        },
    }  # fmt: skip
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
    return content, roles | ({"mask_token": "<mask>"} if behind else {})


def word_pieces() -> tuple[dict[str, Any], dict[str, str]]:
    """BERT's kind: words of up to six letters are one piece, of others the first four letters and the rest."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    signs = [chr(code) for code in range(33, 127)]
    short = [word for word in words() if len(word) <= 6]
    cut = [piece for word in words() if len(word) > 6 for piece in (word[:4], "##" + word[4:])]
    vocabulary = dict.fromkeys((*specials, *signs, *(f"##{sign}" for sign in signs), *short, *cut))
    ids = {token: place for place, token in enumerate(vocabulary)}
    content = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added(specials),
        "normalizer": {
            "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": False,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": around("[CLS]", "[SEP]", ids),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": ids,
        },
    }  # fmt: skip
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return content, roles | {"mask_token": "[MASK]"}


ENDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_head": 2, "n_positions": 1024, **ENDS}
BERT = {
    "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 256, "pad_token_id": 0,
}  # fmt: skip
T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "d_model": 16, "d_kv": 8, "d_ff": 32}
T5 |= {"num_layers": 1, "num_heads": 2, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
MODELS = {
    "causal": (GPT2 | {"n_embd": 16, "n_layer": 1}, ("<s>", ""), 1),
    "causal-larger": (GPT2 | {"n_embd": 32, "n_layer": 2}, ("<s>", ""), 2),
    "masked": (BERT, None, 3),
    "masked-other": (BERT, None, 4),
    "roberta": (BERT | {"model_type": "roberta", "architectures": ["RobertaForMaskedLM"], **ENDS}, ("<s>", "</s>"), 5),
    "t5": (T5 | {"dropout_rate": 0.0}, ("", "</s>"), 7),
}
"""Configuration, special tokens around a text (None: BERT's tokenizer), seed of the weights."""


def make_model(name: str, folder: Path) -> None:
    config, ends, seed = MODELS[name]
    tokenizer, roles = word_pieces() if ends is None else byte_pairs(*ends)
    config = config | {"vocab_size": len(tokenizer["model"]["vocab"]), "torch_dtype": "float32"}
    folder.mkdir(parents=True)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 1024, **roles}
    contents = {"config": config, "tokenizer": tokenizer, "tokenizer_config": about}
    for file, content in contents.items():
        (folder / f"{file}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    kind = getattr(transformers, config["architectures"][0])
    network = kind(kind.config_class(**{key: value for key, value in config.items() if key != "torch_dtype"}))
    draw = np.random.RandomState(seed)  # its numbers stay the same in all versions of numpy
    weights = {}
    for key, weight in sorted(network.named_parameters()):
        values = draw.standard_normal(tuple(weight.shape)) * 0.3
        if re.search(r"(?i)(norm|ln_\w+)\.weight$", key):
            values = 1 + values / 3
        weights[key] = torch.tensor(values, dtype=torch.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


RARE = {
    "texts-24": {"max_tokens": 24},
    "texts-40": {"max_tokens": 40},
    "rerank": {"rerank_weight": 0.1},
    "entities": {"entity_epochs": 1, "entity_parts": 1, "max_tokens": 32},
    "beams": {"beams": 2, "full_rank": False},
    "candidates-10": {"candidates": 10, "demonstrations": 2},
    "candidates-12": {
        "candidates": 12,
        "candidates_by": "triples",
        "gold_among_candidates": True,
        "descriptions": False,
    },
    "no-neighbours": {"knn_weight": 0},
}
"""Files for ``--config``: options without a flag."""


def make_desk(folder: Path) -> None:
    """Everything that the cases need, in folders as their command lines name them."""
    make_towns(folder / "data" / "towns")
    make_graph(folder / "data" / "graph")
    make_texts(folder / "texts")
    make_wikidata(folder / "wikidata")
    shutil.copytree(Path(__file__).parent / "earlier", folder / "data" / "earlier")
    for name in ("town.ttl", "town-patterns.tsv"):
        (folder / "texts" / name).write_bytes((EXAMPLES / name).read_bytes())
    lines(folder / "more.txt", ["Tokyo", "Cairo", "Old Harbour", "Atlantis"])
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    for name, options in RARE.items():
        (folder / f"{name}.yaml").write_text(json.dumps(options), encoding="utf-8")
    for name in MODELS:
        make_model(name, folder / "models" / name)
