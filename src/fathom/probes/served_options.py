"""Options of the probes that can also ask a chat model behind a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fathom.errors import BadInput
from fathom.models.options import ReplyOptions, ServerOptions
from fathom.options import Group, opt
from fathom.probes.options import ALREADY_LOADED, ProbeOptions

if TYPE_CHECKING:
    from fathom.models.base import Model
    from fathom.models.chat import ChatTemplate
    from fathom.models.likelihoods import LikelihoodServer
    from fathom.models.server import ChatServer


class ServedOptions(ServerOptions, ReplyOptions, ProbeOptions):
    """What probes can be told that take a server's model in place of one at hand."""

    group: ClassVar = Group.SERVER

    sampling_temperature: float | None = opt(0.0, "Sampling temperature of a server's replies.", ge=0)

    def open_model(self, name: str) -> Model | ChatServer | LikelihoodServer:
        """With ``--server`` what it calls *name*.

        :raises BadInput: see :meth:`ProbeOptions.open_model`.
        """
        if self.server is None:
            return super().open_model(name)
        if ignored := self._said_of_loading():
            raise BadInput(f"{ignored}: what a server does is for it to say; leave them out, or --server")
        return self.connect(name)

    def check_loaded(self, model: Model | ChatServer) -> None:
        """A model behind a server will do.

        :raises BadInput: see :meth:`ProbeOptions.check_loaded`.
        """
        if ignored := self._said_of_loading() or ("--server" if self.server is not None else ""):
            raise BadInput(ALREADY_LOADED.format(ignored))
        self._check_needs(model)

    def template(self, model: Any) -> ChatTemplate | None:
        """None also for a server, which has its own. :raises BadInput: see :meth:`ReplyOptions.template`."""
        if model.tokenizer is not None:
            return super().template(model)
        for name in ("chat", "shuffle_chat"):
            if getattr(self, name):
                flag = f"--{name.replace('_', '-')}"
                raise BadInput(f"{flag}: a server puts its own chat template around questions; leave {flag} out")
        return None
