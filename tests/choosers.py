"""A chat model that is scripted, and an ontology to ask it about."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from fathom.base.progress import Progress
from fathom.engine.models.base import Identity
from fathom.engine.models.server import ChatReply, ChatRequest, ChatServer


class ScriptedChat(ChatServer):
    """A chat model that answers here and now, as if from a server.

    :param reply: what it says to a question.
    """

    def __init__(self, reply: Callable[[str], str], name: str = "scripted") -> None:
        self.model, self.base_url, self.reply = name, "here", reply
        self.identity = Identity(name, None, "server", reply.__qualname__)

    def ask(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatReply]:
        return [ChatReply((self.reply(one.user),), ("stop",), 1, 1, None) for one in requests]

    def keep_answers(self, folder: Path) -> None:
        pass

    def circumstances(self) -> dict[str, Any]:
        return {}


def ontology(folder: Path, items: int = 64, seed: int = 0) -> Path:
    """Classes below twelve others, of which the first have most; 20 more of them are not asked about."""
    lot = random.Random(seed)
    kinds = [f"kind {ascii_lowercase[place]}" for place in range(12)]
    classes = {f"class {number}": kinds[min(int(lot.expovariate(0.3)), 11)] for number in range(items + 20)}
    entries = [{"rdfs:label": name, "rdfs:subClassOf": [kind]} for name, kind in classes.items()]
    (folder / "ontology").mkdir(parents=True)
    (folder / "ontology" / "class.json").write_text(json.dumps(entries))
    (folder / "ontology" / "property.json").write_text("[]")
    (folder / "memorizing").mkdir()
    lines = [json.dumps({"uuu": name, "xxx": [kind]}) for name, kind in classes.items()]
    (folder / "memorizing" / "subClassOf.jsonl").write_text("\n".join(lines))
    return folder
