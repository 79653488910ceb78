"""Writes ``src/fathom/keywords.py``, what type checkers know of options, from the models that check them.

``python -m tests.keywords`` writes it anew; tests/test_typing.py fails where it is not what would be written.
"""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from fathom.links import LINKS
from fathom.probes import PROBES

FILE = Path(__file__).parents[1] / "src" / "fathom" / "keywords.py"
HEAD = '''"""Options as keywords, for type checkers. Made from the options' models: ``python -m tests.keywords``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict
'''
WIDTH = 120
PLAIN = {bool: "bool", int: "int", float: "float", str: "str", Path: "str | Path", type(None): "None", Any: "Any"}


def options_models() -> list[type[BaseModel]]:
    """Of all probes and link predictors that Fathom brings, those that they inherit from before them."""
    kinds = [entry.options for entry in (*PROBES.entries(), *LINKS.entries()) if entry.options_at.startswith("fathom.")]
    return list(dict.fromkeys(base for kind in kinds for base in reversed(kind.__mro__) if is_options(base)))


def is_options(kind: type) -> bool:
    return issubclass(kind, BaseModel) and kind is not BaseModel


def written(annotation: Any) -> str:
    """What may be given for a field of this type, as source."""
    if annotation in PLAIN:
        return PLAIN[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return written(inner[0])
    if origin is Literal:
        return f"Literal[{', '.join(repr(value).replace(chr(39), chr(34)) for value in inner)}]"
    if origin in (typing.Union, types.UnionType):
        return " | ".join(written(part) for part in inner)
    if origin is tuple and inner[1:] == (...,):
        one = written(inner[0])
        return f"{one} | Sequence[{one}]" + (" | str" if one == "int" else "")  # "0,2" as on the command line
    if origin is dict:
        return f"dict[{', '.join(map(written, inner))}] | str"
    raise TypeError(f"{annotation} has no keyword yet: say in tests/keywords.py what may be given for it")


def keywords_of(kind: type[BaseModel]) -> dict[str, str]:
    """Name → type of every field, inherited ones included, but for what functions have parameters of their own for."""
    return {name: written(field.annotation) for name, field in kind.model_fields.items() if name != "model"}


def class_of(kind: type[BaseModel]) -> str:
    """Its keywords, without those that it inherits unchanged."""
    bases = [base for base in kind.__bases__ if is_options(base)]
    inherited = {name: type_ for base in bases for name, type_ in keywords_of(base).items()}
    own = {name: type_ for name, type_ in keywords_of(kind).items() if inherited.get(name) != type_}
    said = (kind.__doc__ or "").split("\n")[0]
    from_ = f"{', '.join(base.__name__ for base in bases) or 'TypedDict'}, total=False"
    head = f"class {kind.__name__}({from_}):"
    lines = [head] if len(head) <= WIDTH else [f"class {kind.__name__}(", f"    {from_}", "):"]  # as ruff has it
    lines += [f'    """{said}"""', *([""] if own else []), *(f"    {name}: {type_}" for name, type_ in own.items())]
    return "\n".join(lines)


def source() -> str:
    """All of the file."""
    return "\n\n".join([HEAD, *(f"{class_of(kind)}\n" for kind in options_models())])


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")
