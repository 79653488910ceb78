"""Options for chat templates and model servers; loads neither torch nor a client."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator

from fathom.base.errors import BadInput
from fathom.base.options import ASKING, CIRCUMSTANCE, LATER, REPEATED, Group, Names, opt

if TYPE_CHECKING:
    from fathom.engine.models.likelihoods import LikelihoodServer
    from fathom.engine.models.server import ChatServer


def template_variables(value: Any) -> Any:
    """Return a mapping as "NAME=VALUE" texts, and check such texts. :raises ValueError: another form."""
    if isinstance(value, dict):
        value = [f"{name}={each if isinstance(each, str) else json.dumps(each)}" for name, each in value.items()]
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        return texts
    names = [str(text).partition("=")[0] for text in texts]
    if not all(re.match(r"[A-Za-z_]\w*=", str(text)) for text in texts):
        raise ValueError("expected NAME=VALUE, such as enable_thinking=false")
    if len(set(names)) < len(names):
        raise ValueError("expected each NAME once")
    return texts


class ChatOptions(BaseModel):
    """Options for chat templates."""

    group: ClassVar = Group.PROMPTS

    chat: bool = opt(
        False,
        "Use the tokenizer's chat template: a question is the user's turn, a statement or an option the assistant's.",
        LATER,
    )
    system: str = opt("", "System message, with --chat or --server.", LATER)
    chat_arguments: Annotated[tuple[str, ...], BeforeValidator(template_variables)] = opt(
        (),
        "With --chat: a variable of the chat template, NAME=VALUE, such as enable_thinking=false; may be repeated. "
        "strftime_now=2026-07-26 fixes the day that a template writes.",
        LATER | REPEATED,
    )
    shuffle_chat: bool = opt(
        False,
        "Control of --chat: put the template's tokens before the user's words in random order, drawn by --seed.",
        LATER,
    )


class SpokenOptions(ChatOptions):
    """Options for statements within a chat."""

    group: ClassVar = Group.PROMPTS

    chat_user: str = opt("State a fact.", "With --chat: the user's turn before the statement; empty for none.", LATER)


class ReplyOptions(ChatOptions):
    """Options for reading generated replies."""

    group: ClassVar = Group.SCORING

    cut_reasoning: str = opt(
        "none",
        "Part of a reply that is reasoning, not the answer: think (<think>…</think>), two marks with ... between "
        "them, such as '<reason>...</reason>', or none.",
        LATER,
    )


class ServerOptions(BaseModel):
    """Options for probes that query a model server."""

    group: ClassVar = Group.SERVER
    config_only: ClassVar[Names] = ("unlisted", "concurrency", "timeout_s", "retries")

    server: str | None = opt(None, "Base URL of an OpenAI-compatible server to query instead of loading the model.")
    unlisted: bool = opt(False, "Accept a server that does not list the model.")
    key_env: str | None = opt(
        None,
        "Environment variable with the server's key; by default OPENAI_API_KEY, for remote servers.",
        ASKING,
        CIRCUMSTANCE,
    )
    concurrency: int = opt(8, "Concurrent calls to the server.", ASKING, CIRCUMSTANCE, ge=1)
    requests_per_minute: float | None = opt(None, "Maximum calls to the server per minute.", ASKING, CIRCUMSTANCE, gt=0)
    timeout_s: float = opt(60, "Seconds to wait for the server's answer.", ASKING, CIRCUMSTANCE, gt=0)
    retries: int = opt(6, "How often a failed call to the server is repeated.", ASKING, CIRCUMSTANCE, ge=0)

    def connect(self, model: str) -> ChatServer:
        """Return the chat model *model* of :attr:`server`.

        :raises BadInput: no such server or model, a wrong or missing key.
        :raises MissingExtra: openai is not installed.
        """
        from fathom.engine.models.server import ChatServer

        return ChatServer(*self._address(model), **self._client())

    def connect_for_likelihoods(self, model: str, tokenizer: str) -> LikelihoodServer:
        """Return the causal model *model* of :attr:`server`, for likelihoods.

        :param tokenizer: name or folder of the model's own.
        :raises BadInput: as :meth:`connect`; a server that does not score texts, or has another tokenizer.
        """
        from fathom.engine.models.likelihoods import LikelihoodServer
        from fathom.engine.models.parts import load_causal_tokenizer

        return LikelihoodServer(*self._address(model), load_causal_tokenizer(tokenizer), **self._client())

    def _address(self, model: str) -> tuple[str, str]:
        if self.server is None:
            raise BadInput("--server: give the base URL of the server")
        return self.server, model

    def _client(self) -> dict[str, Any]:
        return self.model_dump(include=ServerOptions.model_fields.keys() - {"server"})
