"""How to reach a chat model behind a server, and how to talk to one; loads neither torch nor a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

from fathom.errors import BadInput
from fathom.options import ASKING, CIRCUMSTANCE, LATER, Group, opt

if TYPE_CHECKING:
    from fathom.models.chat import ChatTemplate
    from fathom.models.likelihoods import LikelihoodServer
    from fathom.models.server import ChatServer


class ChatOptions(BaseModel):
    """Whether a model is asked as its chat template has it."""

    group: ClassVar = Group.PROMPTS

    chat: bool = opt(
        False,
        "Ask through the tokenizer's chat template: a question is the user's turn, a statement or an "
        "option the assistant's.",
        LATER,
    )
    system: str = opt("", "System message, with --chat or --server.", LATER)
    shuffle_chat: bool = opt(
        False,
        "With --chat, its control: the template's own tokens stand in random order, drawn by --seed, in "
        "front of what the user says.",
        LATER,
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

    chat_user: str = opt(
        "State a fact.", "With --chat: what the user says before the statement; empty for no such turn.", LATER
    )


class ReplyOptions(ChatOptions):
    """How what a model writes is read."""

    group: ClassVar = Group.SCORING

    cut_reasoning: str = opt(
        "none",
        "What of a reply is reasoning and no answer: think (<think>…</think>), two signs with ... between "
        "them, such as '<reason>...</reason>', or none.",
        LATER,
    )


class ServerOptions(BaseModel):
    """What everything that can ask a server instead of a model at hand is told of it."""

    group: ClassVar = Group.SERVER

    server: str | None = opt(None, "Base URL of an OpenAI-compatible server to ask instead of loading the model here.")
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
