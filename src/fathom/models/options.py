"""How to reach a chat model behind a server; loads neither torch nor a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, Field

from fathom.errors import BadInput
from fathom.options import ASKING, CIRCUMSTANCE, Group

if TYPE_CHECKING:
    from fathom.models.server import ChatServer


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

        if self.server is None:
            raise BadInput("--server: give the base URL of the server to ask")
        told = self.model_dump(include=ServerOptions.model_fields.keys() - {"server"})
        return ChatServer(self.server, model, **told)
