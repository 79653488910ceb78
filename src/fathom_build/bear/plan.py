"""The plan of a probe: which relations, put into which words, and the constraints that its instances keep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from fathom.base.errors import BadInput, refuse
from fathom.base.options import Seed, nearest, opt, read_yaml, value_fault
from fathom.base.reading import Json
from fathom.data.templates import ANSWER, SUBJECT
from fathom_build.bear.entities import date_of

Several = Literal["filtered", "chosen", "kept"]
Cardinality = Literal["auto", "1:1", "1:N"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _id(example: str) -> Any:
    def check(value: object) -> str:
        if not isinstance(value, str) or not re.fullmatch(rf"{example[0]}[1-9][0-9]*", value):
            raise ValueError(f"expected an id such as {example}")
        return value

    return BeforeValidator(check)


Property = Annotated[str, _id("P36")]
Item = Annotated[str, _id("Q6256")]


def _day(value: object) -> str:
    text = value.isoformat() if isinstance(value, date) else str(value)
    if not re.fullmatch(r"-?\d{1,6}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?", text):
        raise ValueError("expected a date such as 2022, 2022-01 or 2022-01-03")
    return date_of(text, 9 + text.lstrip("-").count("-"))


def _slots(templates: tuple[str, ...]) -> tuple[str, ...]:
    faults = [
        f"template {text!r} has {slot} {text.count(slot)} times, expected once"
        for text in templates
        for slot in (SUBJECT, ANSWER)
        if text.count(slot) != 1
    ]
    if faults:
        raise ValueError("; ".join(faults))
    return templates


Templates = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_slots)]


class RelationPlan(_Part):
    """A relation of the probe."""

    property: Property = Field(description="Wikidata's property, such as P36.")
    templates: Templates = Field(description="Sentences with [X] and [Y].")
    subject_types: tuple[Item, ...] = opt((), "Classes that a subject must be of; none: any.")
    object_types: tuple[Item, ...] = opt((), "Classes that an answer must be of; none: any.")
    cardinality: Cardinality = opt("auto", "1:1 for one instance an answer; auto: as the data allow.")
    several: Several | None = opt(None, "Instead of the plan's, for this relation.")
    ended: bool | None = opt(None, "Instead of the plan's, for this relation.")
    domains: tuple[str, ...] = opt((), "To break results down by.")


class Limits(_Part):
    """Limits of a variant of the probe."""

    instances: int = Field(ge=1, description="To aim at, of a 1:N relation.")
    tolerance: float = opt(0.1, "How far from it a relation may be.", ge=0, lt=1)
    least_answers: int = Field(5, ge=2)
    most_answers: int = Field(ge=2)
    least_per_answer: int = Field(6, ge=1)
    most_per_answer: int = Field(ge=1)
    one_to_one: int = Field(ge=2, description="Answers, and so instances, of a 1:1 relation.")
    least_popularity: int = opt(0, "Of subjects and answers.", ge=0)

    @model_validator(mode="after")
    def _ordered(self) -> Limits:
        if self.least_answers > self.most_answers or self.least_per_answer > self.most_per_answer:
            raise ValueError("the least is greater than the most: exchange them")
        low = self.least_answers * self.least_per_answer
        high = self.most_answers * self.most_per_answer
        if low > self.instances * (1 + self.tolerance) or high < self.instances * (1 - self.tolerance):
            nearest_ = low if low > self.instances else high
            raise ValueError(
                f"no number of answers and instances of each gives about {self.instances}: they give {low:,} to "
                f"{high:,}; the nearest that can be is instances: {nearest_}"
            )
        return self


SMALL = Limits(instances=150, most_answers=25, most_per_answer=30, one_to_one=60)
"""BEAR's (section 4.3 and 4.5)."""
BIG = Limits(instances=600, most_answers=100, most_per_answer=120, one_to_one=194)
"""BEAR-big's, as its files have them."""


class BearPlan(_Part):
    """All that decides what is in the probe, but for the data."""

    language: str = opt("en", "Of names.", pattern=r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
    relations: tuple[RelationPlan, ...] = Field(min_length=1)
    several: Several = opt("filtered", "Subjects with several right answers.")
    ended: bool = opt(False, "Whether facts that have ended count, too.")
    as_of: Annotated[str, BeforeValidator(_day)] = opt("", "A date: what held then counts.")
    overlapping: bool = opt(False, "Whether answers may be part of each other's names.")
    small: Limits | None = SMALL
    big: Limits | None = BIG
    seed: Seed = 0

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, content: object) -> object:
        """Fill in the paper's limits for a variant that names only some; "as_of" may be left out."""
        if not isinstance(content, dict):
            return content
        filled = dict(content)
        for name, usual in (("small", SMALL), ("big", BIG)):
            if isinstance(filled.get(name), dict):
                filled[name] = usual.model_dump() | filled[name]
        return filled

    @property
    def properties(self) -> list[str]:
        """The properties of all relations, in order."""
        return [relation.property for relation in self.relations]

    def variants(self) -> dict[str, Limits]:
        """Return the variants, the largest first."""
        return {name: limits for name, limits in (("big", self.big), ("small", self.small)) if limits is not None}


def read_plan(file: Path) -> BearPlan:
    """:raises BadInput: the file cannot be read, or all that is wrong in it, each with its place."""
    content = read_yaml(file)
    try:
        plan = BearPlan(**content)
    except ValidationError as error:
        raise BadInput(
            [f"{file}: {_fault(content, fault, _kind(fault['loc']))}" for fault in error.errors()]
        ) from error
    refuse([f"{file}: {fault}" for fault in _more_faults(plan)])
    return plan


def _kind(place: Sequence[int | str]) -> type[BaseModel]:
    parts: dict[str, type[BaseModel]] = {"relations": RelationPlan, "small": Limits, "big": Limits}
    return parts.get(str(place[0]), BearPlan) if len(place) > 1 else BearPlan


def _fault(content: Json, fault: Mapping[str, Any], kind: type[BaseModel]) -> str:
    """Describe a fault in one line: where, what was expected, what was found."""
    where = ".".join(_named(content, fault["loc"])) or "the plan"
    name = str(fault["loc"][-1]) if fault["loc"] else ""
    if fault["type"] == "extra_forbidden":
        return f"{where}: there is no such option: {nearest(name, kind.model_fields)}"
    if fault["type"] == "missing":
        description = kind.model_fields[name].description if name in kind.model_fields else ""
        return f"{where} is missing" + (f": {description}" if description else "")
    if fault["type"] == "value_error" and isinstance(fault["input"], dict):  # of several options together
        return f"{where}: {fault['msg'].removeprefix('Value error, ')}"
    found = "options" if isinstance(fault["input"], dict) else fault["input"]
    return f"{where}: {value_fault({**fault, 'input': found})}"


def _named(content: Json, place: Sequence[int | str]) -> Iterator[str]:
    for at, part in enumerate(place):
        if at == 1 and place[0] == "relations" and isinstance(part, int):
            row = content["relations"][part]
            name = row.get("property") if isinstance(row, dict) else None
            yield str(name) if isinstance(name, str) else str(part + 1)
        else:
            yield str(part)


def _more_faults(plan: BearPlan) -> Iterator[str]:
    for property_, count in Counter(plan.properties).items():
        if count > 1:
            yield f"relations.{property_}: stands {count} times: keep one"
    if plan.small is None and plan.big is None:
        yield "small and big are both left out: nothing to build; keep one"
    for relation in plan.relations:
        place, first, found = (
            f"relations.{relation.property}",
            len(plan.relations[0].templates),
            len(relation.templates),
        )
        if found != first:
            yield f"{place}.templates: expected {first}, as of the first relation, found {found}"
