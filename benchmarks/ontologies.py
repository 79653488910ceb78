"""What published ontologies give, from the file to the numbers: built, checked, asked by words and learnt templates.

python benchmarks/ontologies.py foaf.rdf pizza.owl … [--most 200] [--folder DIR]

Each file goes through `fathom build ontology`, `fathom data check`, `fathom probe ontology` with a small BERT of random
weights whose vocabulary are the words of the data, and `fathom probe ontology --soft --cross-validate --epochs 1` for
the tasks of up to --most items. A command that fails, or asks another number of items than the data have, ends it all.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import fathom
from fathom.prompts.ontology import TASKS
from fathom.store.folder import RunFolder

FATHOM = [sys.executable, "-c", "from fathom.cli import main; main()"]
SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def said(*words: object) -> str:
    """Of a command of Fathom, which must end well."""
    return subprocess.run([*FATHOM, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout


def small_bert(folder: Path, data: fathom.QuerySet) -> None:
    """Of random weights, with a token for each word of the data."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

    names = [name for space in data.candidates.values() for name in space.names]
    asked = [text for query in data.queries for text in (query.subject, *(s.text for s in query.sentences))]
    worded = [template.text for relation in data.relations.values() for template in relation.templates]
    words = set(re.findall(r"\w+|[^\w\s]+", " ".join((*names, *asked, *worded))))
    forms = sorted(words | {word[0].upper() + word[1:] for word in words})
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys((*SPECIAL.values(), *forms)))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL).save_pretrained(folder)
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=len(vocabulary), **shape)).save_pretrained(folder)


def line_of(file: Path, folder: Path, most: int) -> list[str]:
    """A row of the table."""
    said("build", "ontology", "--input", file, "--out", folder / "data")
    said("data", "check", folder / "data")
    data = fathom.read_data(folder / "data")
    items = {task: len(queries) for task, queries in data.by_relation().items()}
    small_bert(folder / "bert", data)
    ask = ["probe", "ontology", "--model", folder / "bert", "--data", folder / "data"]
    said(*ask, "--templates", 0, "--out", folder / "words")
    few = [task for task, number in items.items() if 3 <= number <= most]
    learnt = ["--soft", "--cross-validate", "--epochs", 1, "--relations", ",".join(few), "--out", folder / "learnt"]
    asked = {"words": sum(items.values()), "learnt": sum(items[task] for task in few)}
    if few:
        said(*ask, *learnt)
    for name, number in asked.items():
        found = len(RunFolder.open(folder / name).queries()) if number else 0
        if found != number:
            raise SystemExit(f"{file}: {found} items were asked {name}, expected {number}")
    counts = (folder / "data" / "manifest.json").read_text(encoding="utf-8")
    classes, properties = (re.findall(rf'"{what}": (\d+)', counts)[0] for what in ("classes", "properties"))
    return [
        f"`{file.name}`",
        classes,
        properties,
        *(str(items.get(task, 0)) for task in TASKS),
        *map(str, asked.values()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--most", type=int, default=200, help="items of a task that templates are learnt for")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where data and runs lie meanwhile (default: temporary)"
    )
    chosen = parser.parse_args()
    columns = ["file", "classes", "properties", *TASKS, "asked by words", "learnt, by folds"]
    print("| " + " | ".join(columns) + " |\n|---|" + "---:|" * (len(columns) - 1))
    for file in chosen.files:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
            print("| " + " | ".join(line_of(file, Path(folder), chosen.most)) + " |", flush=True)


if __name__ == "__main__":
    main()
