"""Declaring, parsing and describing options; loads no model library."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

from annotated_types import Interval

from fathom.base.errors import BadInput, alike
from fathom.base.reading import shown, yaml_file

if TYPE_CHECKING:  # not needed for fathom --help
    from pydantic import BaseModel, ValidationError
    from pydantic.config import JsonDict
    from pydantic.fields import FieldInfo

Options = TypeVar("Options", bound="BaseModel")
Given = dict[str, Any]
"""Unchecked options by name, as typed or read."""
Names = Collection[str]

LARGEST_SEED = 2**32 - 1
"""Maximum of NumPy's legacy generators, which PyKEEN seeds."""
Seed = Annotated[int, Interval(ge=0, le=LARGEST_SEED)]
Rate = Annotated[float, Interval(gt=0, le=1e6)]
"""A learning rate. Above a million nothing is learnt, and float32 soon overflows."""
EVERYTHING = "all"
"""As a subset: all of the data, even if a part is the default."""
FOLDS = 5
"""Default number of folds of a cross-validation."""
CIRCUMSTANCE: JsonDict = {"circumstance": True}
"""Marks a field that changes no number, so it may differ when a run is resumed."""
SAMPLE = "Sampling unit of the intervals"
KEYS = f"{SAMPLE}: relation, fact (within its relation), query, subject, answer, or a key of the data's groups"
CLUSTER = (
    f"{KEYS}, such as document; by default relation if there are ten or more of similar size, else subject or fact."
)
DATA = "Data folder, a file of facts (CSV, TSV, Parquet) or triples, or an embedded data set (geography)."
SCORING = "Scorings to use of runs that have several, separated by commas."
TWO_WAYS = f"{CLUSTER[:-1]}, and by subject as well as relation where subjects repeat."
LEAST_POINTS = 0.1
"""Smallest difference in points that a comparison takes; less is a share that was typed in place of points."""
LATER: JsonDict = {"later": True}
"""Marks a field that older runs lack and whose default reproduces them: at its default it is not part of the identity,
so that they can be resumed."""
ASKING: JsonDict = {"asking": True}
"""Marks a field of a link predictor that may differ between training and evaluation."""
ARGUMENT: JsonDict = {"argument": True}
"""Marks a field that is typed without a flag, as a folder is."""
REPEATED: JsonDict = {"repeated": True}
"""Marks a field whose flag is repeated for each value, as values may contain commas."""


def also(flag: str) -> JsonDict:
    """Mark a field that has a second flag, such as ``-o``."""
    return {"also": flag}


class Group(StrEnum):
    """The panels in which ``--help`` shows options, in this order.

    An options model names one for its fields, ``group: ClassVar = Group.SCORING``; a field may name another as a
    mark of :func:`opt`. A field that a subclass declares again stays in its group.
    """

    MODEL = "Model"
    DATA = "Data"
    SELECTION = "Selection"
    PROMPTS = "Prompts"
    SCORING = "Scoring"
    TRAINING = "Training"
    SERVER = "Server"
    RUN = "Run"
    CLUSTER = "Cluster"
    OUTPUT = "Output"

    @property
    def mark(self) -> JsonDict:
        """For ``json_schema_extra`` of a field."""
        return {"group": str(self)}


def opt(default: object, text: str, *marks: Group | JsonDict, **limits: Any) -> Any:
    """Declare an option of a model.

    :param text: its line in ``--help``.
    :param marks: its group, if that is not the model's, and marks such as :data:`CIRCUMSTANCE`.
    """
    from pydantic import Field

    extra: JsonDict = {}
    for mark in marks:
        extra |= mark.mark if isinstance(mark, Group) else mark
    return Field(default, description=text, json_schema_extra=extra or None, **limits)


def group_of(kind: type[BaseModel], name: str) -> Group | None:
    """Return the group of a field: its own, or that of the class that first declares it; None without any."""
    from pydantic import BaseModel

    having = [base for base in kind.__mro__ if issubclass(base, BaseModel) and name in base.model_fields]
    for base in having:
        if group := mark_of(base.model_fields[name], "group"):
            return Group(group)
    return getattr(having[-1], "group", None)


def mark_of(field: FieldInfo, mark: str) -> Any:
    """Return what :func:`opt` noted of a field under that mark, such as "circumstance", or None."""
    return field.json_schema_extra.get(mark) if isinstance(field.json_schema_extra, dict) else None


def marked(kind: type[BaseModel], mark: str) -> set[str]:
    """Return the names of the fields with that mark."""
    return {name for name, field in kind.model_fields.items() if mark_of(field, mark)}


def config_only(kind: type[BaseModel]) -> set[str]:
    """Return the fields without a flag, which classes list as ``config_only``: files, plans and Python set them."""
    listed = {name for base in kind.__mro__ for name in vars(base).get("config_only", ())}
    return listed & kind.model_fields.keys()


def spelling(kind: type[BaseModel], name: str) -> str:
    """Return how a field is typed: ``--max-rank``; ``--from`` for ``from_``; or the name itself of an argument."""
    field = kind.model_fields.get(name)
    if field is not None and mark_of(field, "argument"):
        return name.upper()
    return "--" + name.rstrip("_").replace("_", "-")


def typed(kind: type[BaseModel], name: str, value: Any) -> list[str]:
    """Return what to type for a value of an option."""
    flag, field = spelling(kind, name), kind.model_fields.get(name)
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    if field is not None and mark_of(field, "repeated"):
        return [word for each in value for word in (flag, str(each))]
    return [flag, ",".join(map(quoted, value)) if isinstance(value, list | tuple) else str(value)]


def quoted(part: object) -> str:
    """Return what :func:`listed` takes for one part, even with commas."""
    text = str(part)
    return '"' + text.replace('"', '""') + '"' if "," in text or text.startswith('"') else text


def identity_of(options: BaseModel) -> Given:
    """Return the fields that can change a number, without those of :data:`LATER` at their default."""
    kind = type(options)
    unset = {name for name in marked(kind, "later") if getattr(options, name) == kind.model_fields[name].default}
    return options.model_dump(mode="json", exclude=marked(kind, "circumstance") | unset)


def listed(value: object) -> Any:
    """Split "a,b" as typed on a command line into ("a", "b"); YAML and Python may give lists.

    A part in quotation marks may contain commas: '"a,b",c' is ("a,b", "c").
    """
    if isinstance(value, str):
        value = [part.strip() for part in _parts_of(value) if part.strip()]
    if isinstance(value, int):
        value = [value]
    return tuple(value) if isinstance(value, list | tuple) else value


def _parts_of(text: str) -> list[str]:
    if '"' not in text:
        return text.split(",")
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise ValueError(f"cannot be split at its commas: {error}") from error


def separated(value: object) -> Any:
    """Split like :func:`listed`, and drop repeated values."""
    parts = listed(value)
    is_plain = isinstance(parts, tuple) and all(isinstance(part, str | int | float) for part in parts)
    return tuple(dict.fromkeys(parts)) if is_plain else parts


def chosen_options(asked: str | Options, keywords: Given, parse: Callable[[Given], Options]) -> Options:
    """Return the options object that a function was given, or parse the keywords after a name.

    :raises BadInput: both were given, or wrong keywords.
    """
    if isinstance(asked, str):
        return parse(keywords)
    if keywords:
        raise BadInput(f"{', '.join(keywords)}: expected within {type(asked).__name__}(…)")
    return asked


def parse_options(kind: type[Options], values: Given) -> Options:
    """Make an options object. :raises BadInput: one line per option that is unknown or out of range."""
    from pydantic import ValidationError

    try:
        return options_of(kind, values)
    except ValidationError as error:
        faults = option_faults(kind, error)
        missing = [fault["loc"][0] for fault in error.errors() if fault["type"] == "missing"]
        lines = [line for name, line in faults if len(missing) == 1 or name not in missing]
        if len(missing) > 1:
            lines.insert(0, f"{', '.join(spelling(kind, str(name)) for name in missing)} are missing: --help says more")
        raise BadInput(lines) from error


def options_of(kind: type[Options], values: Given) -> Options:
    """Make an options object. Where a number is expected, true and false are none: pydantic takes them for 1 and 0.

    :raises ValidationError: an option that is unknown or out of range.
    """
    numbers = {name for name, field in kind.model_fields.items() if _is_number(field.annotation)}
    return kind(**{name: _in_words(value) if name in numbers else value for name, value in values.items()})


def _is_number(annotation: object) -> bool:
    parts = get_args(annotation) or (annotation,)
    return bool not in parts and any(part in (int, float) or (get_args(part) and _is_number(part)) for part in parts)


def _in_words(value: object) -> Any:
    if isinstance(value, list | tuple):
        return [_in_words(each) for each in value]
    return str(value).lower() if isinstance(value, bool) else value


def option_faults(kind: type[BaseModel], error: ValidationError) -> list[tuple[str, str]]:
    """Return the name of each option that is unknown or out of range, and one line on it."""
    return [(str(fault["loc"][0]), _option_fault(kind, fault)) for fault in _causes(error.errors())]


def _causes(faults: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Drop faults that only follow from others: an empty tuple of bad values, a default that needs an option."""
    bad = {fault["loc"][0] for fault in faults if len(fault["loc"]) > 1}
    return [
        fault
        for fault in faults
        if fault["type"] != "default_factory_not_called" and (len(fault["loc"]) > 1 or fault["loc"][0] not in bad)
    ]


def _option_fault(kind: type[BaseModel], fault: Mapping[str, Any]) -> str:
    name = str(fault["loc"][0])
    option = spelling(kind, name)
    if fault["type"] == "extra_forbidden":
        return f"there is no option {option}: {nearest(name, kind.model_fields)}"
    if fault["type"] == "missing":
        values = ", ".join(choices_of(kind.model_fields[name].annotation))
        return f"{option} is missing: expected {values or kind.model_fields[name].description}"
    if fault["type"] == "too_short" and not fault["input"]:
        values = ", ".join(choices_of(kind.model_fields[name].annotation))
        return f"{option}: expected one or more{f' of {values}' if values else ''}, found none"
    return f"{option}: {value_fault(fault)}"


def value_fault(fault: Mapping[str, Any]) -> str:
    """Return what was expected of a value, and the value. NaN, which is within no limits, is not a number."""
    value, message = fault["input"], fault["msg"].removeprefix("Value error, ").rstrip(".")
    if str(value).strip().lower() == "nan":
        message = "expected a number"
    elif fault["type"] in _EXPECTED:
        message = f"expected {_EXPECTED[fault['type']].format(**fault.get('ctx', {}))}".replace("'", "")
        if fault["type"] == "literal_error" and (meant := _meant(str(value), fault["msg"])):
            message += f" (did you mean {meant}?)"
    return message if repr(value) in message else f"{message}, found {value!r}"


_NUMBER, _WHOLE, _TEXT = "a number", "a whole number", "a text"
_EXPECTED = {
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "{le:g} or less",
    "less_than": "less than {lt:g}",
    "literal_error": "{expected}",
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": _NUMBER,
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": _TEXT,
    "path_type": "a path",
    "too_short": "{min_length} or more",
    "too_long": "at most {max_length}",
    "string_too_short": _TEXT,
}
"""What pydantic expects, by the type of its fault."""


def _meant(value: str, message: str) -> str | None:
    """Return the choice quoted in a message that *value* spells out or misspells: md for markdown."""
    choices = re.findall("'([^']+)'", message)
    spelt_out = (choice for choice in choices if re.match(".*".join(map(re.escape, choice)), value.casefold()))
    return next(iter([*alike(value, choices, 1), *spelt_out]), None)


def choices_of(annotation: object) -> list[str]:
    """Return the choices of a field's type, if it has any."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in choices_of(part)]


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Suggest the names most similar to *name*, or list all known ones."""
    names = sorted(candidates)
    like = alike(name, names)
    return f"did you mean {' or '.join(like)}?" if like else f"expected one of {', '.join(names)}"


def read_yaml(file: Path) -> Given:
    """Read a YAML file with a mapping. :raises BadInput: it cannot be read, or holds something else."""
    content = yaml_file(file)
    if not isinstance(content, dict):
        raise BadInput(f"{file}: expected 'option: value' lines, found {type(content).__name__}")
    if strange := [name for name in content if not isinstance(name, str)]:
        raise BadInput(f"{file}: expected names of options, found {shown(strange[0])}")
    return content
