"""How to reach a chat model behind a server, and how to talk to one; loads neither torch nor a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, Field

from fathom.errors import BadInput
from fathom.options import ASKING, CIRCUMSTANCE, LATER, Group

if TYPE_CHECKING:
    from fathom.models.chat import ChatTemplate
    from fathom.models.likelihoods import LikelihoodServer
    from fathom.models.server import ChatServer


class ChatOptions(BaseModel):
    """Whether a model is asked as its chat template has it."""

    group: ClassVar = Group.PROMPTS

    chat: bool = Field(
        False,
        description="Ask through the tokenizer's chat template: a question is the user's turn, a statement or an "
        "option the assistant's.",
        json_schema_extra=LATER,
    )
    system: str = Field("", description="System message, with --chat or --server.", json_schema_extra=LATER)
    shuffle_chat: bool = Field(
        False,
        description="With --chat, its control: the template's own tokens stand in random order, drawn by --seed, in "
        "front of what the user says.",
        json_schema_extra=LATER,
    )

    def template(self, model: Any) -> ChatTemplate | None:
        """Of a model at hand; None where it is asked in plain wording.

        :raises BadInput: there is no template, it fails, or options that do not go together.
        """
        bos = getattr(self, "bos", "auto")
        if self.system and not self.chat:
            raise BadInput("--system: plain wording has no system message; type --chat, too")
        if self.shuffle_chat and not self.chat:
            raise BadInput("--shuffle-chat: plain wording has no chat template to shuffle; type --chat, too")
        if not self.chat:
            return None
        if model.attention != "causal":
            raise BadInput(f"--chat: this model is {model.attention} and takes no turns; leave --chat out")
        if bos != "auto":
            raise BadInput(f"--bos {bos}: the chat template says what stands first; leave --bos or --chat out")
        from fathom.models.chat import ChatTemplate, ShuffledChat

        if self.shuffle_chat:
            return ShuffledChat(model.tokenizer, self.system, getattr(self, "seed", 0))
        return ChatTemplate(model.tokenizer, self.system)


class SpokenOptions(ChatOptions):
    """How statements are put into a chat."""

    group: ClassVar = Group.PROMPTS

    chat_user: str = Field(
        "State a fact.",
        description="With --chat: what the user says before the statement; empty for no such turn.",
        json_schema_extra=LATER,
    )


class ReplyOptions(ChatOptions):
    """How what a model writes is read."""

    group: ClassVar = Group.SCORING

    cut_reasoning: str = Field(
        "none",
        description="What of a reply is reasoning and no answer: think (<think>…</think>), two signs with ... between "
        "them, such as '<reason>...</reason>', or none.",
        json_schema_extra=LATER,
    )


class ServerOptions(BaseModel):
    """What everything that can ask a server instead of a model at hand is told of it."""

    group: ClassVar = Group.SERVER

    server: str | None = Field(
        None, description="Base URL of an OpenAI-compatible server to ask instead of loading the model here."
    )
    unlisted: bool = Field(False, description="Accept a server that does not list the model.")
    key_env: str | None = Field(
        None,
        description="Environment variable with the server's key; by default OPENAI_API_KEY, for remote servers.",
        json_schema_extra=ASKING | CIRCUMSTANCE,
    )
    concurrency: int = Field(
        8, ge=1, description="Concurrent calls to the server.", json_schema_extra=ASKING | CIRCUMSTANCE
    )
    requests_per_minute: float | None = Field(
        None, gt=0, description="Maximum calls to the server per minute.", json_schema_extra=ASKING | CIRCUMSTANCE
    )
    timeout_s: float = Field(
        60, gt=0, description="Seconds to wait for the server's answer.", json_schema_extra=ASKING | CIRCUMSTANCE
    )
    retries: int = Field(
        6,
        ge=0,
        description="How often a failed call to the server is repeated.",
        json_schema_extra=ASKING | CIRCUMSTANCE,
    )

    def connect(self, model: str) -> ChatServer:
        """The model that :attr:`server` calls *model*.

        :raises BadInput: no such server or model, a wrong or missing key.
        :raises MissingExtra: openai is not installed.
        """
        from fathom.models.server import ChatServer

        return ChatServer(*self._where(model), **self._how())

    def connect_for_likelihoods(self, model: str, tokenizer: str) -> LikelihoodServer:
        """The model that :attr:`server` calls *model*, to be asked how likely texts are.

        :param tokenizer: name or folder of the model's own.
        :raises BadInput: as :meth:`connect`; a server that does not score texts, or has another tokenizer.
        """
        from fathom.models.likelihoods import LikelihoodServer
        from fathom.models.loading import load_causal_tokenizer

        return LikelihoodServer(*self._where(model), load_causal_tokenizer(tokenizer), **self._how())

    def _where(self, model: str) -> tuple[str, str]:
        if self.server is None:
            raise BadInput("--server: give the base URL of the server to ask")
        return self.server, model

    def _how(self) -> dict[str, Any]:
        return self.model_dump(include=ServerOptions.model_fields.keys() - {"server"})
