"""Options of the choice probe."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator

from fathom.options import LATER, Group, opt, separated
from fathom.probes.options import LikelihoodOptions, ServedOptions
from fathom.probes.shared_options import Numbers


class ChoiceOptions(ServedOptions, LikelihoodOptions):
    """Options of the choice probe (multiple choice)."""

    group: ClassVar = Group.PROMPTS

    server: str | None = opt(
        None,
        "Base URL of an OpenAI-compatible server, instead of a local model: by chat or, with --tokenizer, for the "
        "likelihoods of options.",
        Group.SERVER,
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", Group.SERVER)
    limit: int | None = opt(
        None,
        "Evaluate at most this many questions, drawn at random by --seed. A reasoning question comes with the "
        "memorising question of its premise and all other questions of its item; all count.",
        ge=1,
    )
    options: int | None = opt(
        None,
        "Options per question, drawn by --seed from the query's candidates; 20 unless the data has its own.",
        ge=2,
        le=26,
    )
    orders: int = opt(
        1,
        "Number of orders of each question's options, drawn by --seed, each a separate call; an option's score is the "
        "mean over them. 1: as in the data.",
        LATER,
        ge=1,
        le=100,
    )
    replies: Literal["named", "strict"] = opt(
        "named",
        "Accepted replies of a server: an option in one of several forms (a boxed letter, 'Final answer: b', an "
        "option and an explanation), or strictly an option and nothing else.",
        Group.SERVER,
        LATER,  # older runs were strict and can be resumed: circumstances count the forms
    )
    score: Annotated[tuple[Literal["letter", "text-sum", "text-mean"], ...], BeforeValidator(separated)] = opt(
        ("letter",),
        "Causal models: score the option's letter, or its text (in nats, or in nats per token).",
        Group.SCORING,
        min_length=1,
    )
    templates: Numbers = opt((), "Masked models: use only these statements, counted from 0, separated by commas.")
    sentences: Literal["first", "all"] = opt(
        "all", "Masked models: use the first of a question's own statements, or all, averaged per question."
    )
    capitalize: bool = opt(True, "Masked models: write the first letter of every statement in upper case.")
    instruction: str = opt(
        "Reply with the letter of one option and nothing else.",
        "Instruction below the options for chat models, and with --chat for causal ones.",
    )
    reply_tokens: int = opt(32, "Maximum tokens of a server's reply; reasoning models need more.", Group.SERVER, ge=1)
