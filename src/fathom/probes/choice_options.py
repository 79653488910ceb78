"""Options of the choice probe, which can also ask a chat model behind a server."""

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
        "Base URL of an OpenAI-compatible server to ask instead of loading the model here: by chat or, "
        "with --tokenizer, for the likelihoods of options.",
        Group.SERVER,
    )
    unlisted: bool = opt(False, "Accept a server that does not list the model.", Group.SERVER)
    limit: int | None = opt(
        None,
        "Ask at most this many questions, drawn at random by --seed; a reasoning question comes with "
        "the memorising one that asks for its premise, and with all that fathom build choices asks of its item; all "
        "count.",
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
        "In how many orders to show each question's options, drawn by --seed, each a call of its own; what "
        "an option scores is the mean over them. 1: as the data have them.",
        LATER,
        ge=1,
        le=100,
    )
    replies: Literal["named", "strict"] = opt(
        "named",
        "What to read of a server's reply: an option named in one of several forms (a boxed letter, 'Final "
        "answer: b', an option and then why), or strictly an option and nothing else.",
        Group.SERVER,
        LATER,  # an unfinished run of before, which read strictly, is resumed: circumstances count what was read how
    )
    score: Annotated[tuple[Literal["letter", "text-sum", "text-mean"], ...], BeforeValidator(separated)] = opt(
        ("letter",),
        "Causal models: score the option's letter, or its text (in nats, or in nats per token).",
        Group.SCORING,
        min_length=1,
    )
    templates: Numbers = opt((), "Masked models: ask only these statements, counted from 0, separated by commas.")
    sentences: Literal["first", "all"] = opt(
        "all", "Masked models: which of a question's own statements to ask: the first, or all, averaged per question."
    )
    capitalize: bool = opt(True, "Masked models: write the first letter of every statement in upper case.")
    instruction: str = opt(
        "Reply with the letter of one option and nothing else.",
        "What a chat model, and with --chat a causal one, is told below the options.",
    )
    reply_tokens: int = opt(32, "Maximum tokens of a server's reply; reasoning models need more.", Group.SERVER, ge=1)
