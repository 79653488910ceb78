"""Options of the probes that have a model complete a text: vocabulary and generation."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from fathom.options import CIRCUMSTANCE, LATER, Group, opt
from fathom.probes.asking_options import Numbers
from fathom.probes.options import FORM, FewShotOptions, FormName, LikelihoodOptions
from fathom.probes.served_options import ServedOptions


class VocabularyOptions(LikelihoodOptions, FewShotOptions):
    """Options of the vocabulary probe (LAMA)."""

    group: ClassVar = Group.PROMPTS

    templates: Numbers = opt((), "Masked models: ask only these templates, counted from 0, separated by commas.")
    capitalize: bool = opt(True, "Masked models: write the first letter of every statement in upper case.")
    form: FormName = opt("auto", FORM, LATER)


class GenerationOptions(ServedOptions, FewShotOptions):
    """Options of the generation probe (KAMEL)."""

    group: ClassVar = Group.PROMPTS

    server: str | None = opt(
        None, "Base URL of an OpenAI-compatible server to ask instead of loading the model here.", LATER
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", LATER)
    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", LATER, ge=0)

    shots: int = opt(
        5,
        "Answered questions of the relation (or lines, without questions) before the question, drawn by --seed.",
        ge=0,
    )
    questions: Path | None = opt(
        None,
        "File with 'relation, question' lines or JSON Lines (relation, question), the subject written"
        " [X]; by default the data's own questions, else lines (head, relation, tail).",
        CIRCUMSTANCE,  # what it says goes into the identity, not where it lies
    )
    max_new_tokens: int = opt(50, "Maximum tokens of an answer, its reasoning included.", Group.SCORING, ge=1)
    separator: str = opt("; ", "What separates several answers.", pattern=r"\S")
    normalise: bool = opt(
        True,
        "Normalise spaces, punctuation, numbers and dates before comparing answers; otherwise only letter case.",
        Group.SCORING,
    )
