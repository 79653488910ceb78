"""What is wrong with the folder of a model, tokenizer or adapter, said of the file that is at fault."""

from __future__ import annotations

import os
from pathlib import Path

from fathom.reading import Faults, read_json, shapes_in, shown, some_of
from fathom.reading.files import Unreadable

HASHED = {".json", ".safetensors", ".bin", ".model", ".txt", ".py", ".spm", ".tiktoken", ".jinja"}
"""Endings of what makes a model folder: configuration, weights, tokenizer, code."""
CONFIGURATIONS = {
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "adapter_config.json",
}
"""Small files that are checked before the libraries read them."""
TOKENIZERS = ("*token*", "*vocab*", "*.model", "*.spm", "*.tiktoken", "tekken.json")
"""A folder without any of these holds no tokenizer."""


def check_folder(folder: Path) -> None:
    """:raises BadInput: a file where a folder should be; what stands in a file's place is none (a named pipe would be
    waited for); a configuration is no object of JSON."""
    faults = Faults()
    if os.path.isfile(folder):  # Path.is_file raises for a name of thousands of letters
        faults.add(folder, None, "a file; expected a model's folder, or its name on the hub")
    for file in sorted(folder.iterdir()) if os.path.isdir(folder) else ():
        if file.suffix in HASHED and faults.there(file) and file.name in CONFIGURATIONS:
            content = read_json(file, faults)
            if not isinstance(content, dict | None):
                faults.add(file, 1, f"expected an object {{…}}, found {shown(content)}")
    faults.stop_if_any()


def check_all(folder: Path) -> None:
    """What a library could not load, file by file: it does not say which one it stumbled on.

    :raises BadInput: no JSON, or weights that are cut off.
    """
    faults = Faults()
    for file in sorted(folder.iterdir()):
        if file.suffix == ".json":
            read_json(file, faults)
        elif file.suffix == ".safetensors":
            try:
                shapes_in(file, "copy or download it again")
            except Unreadable as error:
                faults.keep(error)
    faults.stop_if_any()


def lacks_configuration(folder: Path) -> str | None:
    """What to say of a folder that holds no model; None of one that may."""
    if (folder / "config.json").exists():
        return None
    inner = [path.parent.name for path in sorted(folder.glob("*/config.json"))]
    hint = f" (folders in it hold one: {some_of(inner)})" if inner else ""
    return f"the folder holds no config.json; expected config.json, weights and a tokenizer{hint}"


def lacks_tokenizer(folder: Path) -> str | None:
    """What to say of a folder that holds no tokenizer; None of one that may."""
    if any(file for pattern in TOKENIZERS for file in folder.glob(pattern)):
        return None
    return "the folder holds no tokenizer (tokenizer.json); to take another model's: --tokenizer NAME_OR_FOLDER"


def lacks_weights(folder: Path, *, allow_pickle: bool) -> str | None:
    """What to say of a folder that holds no weights which may be read; None of one that does."""
    pickled = any(folder.glob("*.bin"))
    if any(folder.glob("*.safetensors")) or (pickled and allow_pickle):
        return None
    hint = "; --allow-pickle reads its .bin files, if you trust who wrote them" if pickled else ""
    return f"the folder holds no weights (model.safetensors{' or .bin' if allow_pickle else ''}){hint}"
