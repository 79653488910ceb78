"""Options of the probes that have a model complete a text: vocabulary and generation."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from fathom.options import CIRCUMSTANCE, LATER, Group
from fathom.probes.asking_options import Numbers
from fathom.probes.options import FORM, FewShotOptions, FormName, LikelihoodOptions
from fathom.probes.served_options import ServedOptions


class VocabularyOptions(LikelihoodOptions, FewShotOptions):
    """Options of the vocabulary probe (LAMA)."""

    group: ClassVar = Group.PROMPTS

    templates: Numbers = Field(
        (), description="Masked models: ask only these templates, counted from 0, separated by commas."
    )
    capitalize: bool = Field(
        True, description="Masked models: write the first letter of every statement in upper case."
    )
    form: FormName = Field("auto", description=FORM, json_schema_extra=LATER)


class GenerationOptions(ServedOptions, FewShotOptions):
    """Options of the generation probe (KAMEL)."""

    group: ClassVar = Group.PROMPTS

    server: str | None = Field(
        None,
        description="Base URL of an OpenAI-compatible server to ask instead of loading the model here.",
        json_schema_extra=LATER,
    )
    unlisted: bool = Field(False, description="Accept a server that does not list the model.", json_schema_extra=LATER)
    sampling_temperature: float | None = Field(
        0.0, ge=0, description="Sampling temperature of a server's replies.", json_schema_extra=LATER
    )

    shots: int = Field(
        5,
        ge=0,
        description="Answered questions of the relation (or lines, without questions) before the question, drawn "
        "by --seed.",
    )
    questions: Path | None = Field(
        None,
        description="File with 'relation, question' lines or JSON Lines (relation, question), the subject written"
        " [X]; by default the data's own questions, else lines (head, relation, tail).",
        json_schema_extra=CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )
    max_new_tokens: int = Field(
        50,
        ge=1,
        description="Maximum tokens of an answer, its reasoning included.",
        json_schema_extra=Group.SCORING.mark,
    )
    separator: str = Field("; ", pattern=r"\S", description="What separates several answers.")
    normalise: bool = Field(
        True,
        description="Normalise spaces, punctuation, numbers and dates before comparing answers; otherwise only "
        "letter case.",
        json_schema_extra=Group.SCORING.mark,
    )
