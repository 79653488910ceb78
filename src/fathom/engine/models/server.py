"""Chat models on servers that use OpenAI's protocol: vLLM, llama.cpp, Ollama, `transformers serve`, OpenAI…

Each sampled reply is a call of its own, as llama.cpp, Ollama and `transformers serve` ignore ``n``. So all servers are
called alike, and eight replies to a question with five in the journal cost three calls; the prompt is sent each time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fathom.base.progress import Progress
from fathom.base.reading.replies import excerpt_of
from fathom.engine.models.calls import Call, Failure, Server, usage_of
from fathom.store.journal import Answer, request_key

LONGEST_ANSWER = 1 << 20  # characters: ten times what models write at most


@dataclass(frozen=True)
class ChatRequest:
    """One question to a chat model.

    :param system: the system message, omitted if empty (some models take none).
    :param examples: earlier turns of user and assistant.
    :param n: number of replies.
    :param temperature: None leaves it to the server (reasoning models take only their own).
    :param seed: the first reply's; the second has seed + 1, and so on. A server may ignore it.
    """

    user: str
    system: str = ""
    n: int = 1
    temperature: float | None = 0.0
    max_tokens: int = 256
    seed: int | None = None
    examples: tuple[tuple[str, str], ...] = ()


class ChatReply(NamedTuple):
    """The replies to one request, one entry per reply; all n of them if *fault* is None.

    :param texts: the answers; "" if there is none (its tokens may have gone into reasoning).
    :param finish_reasons: as the server states: "stop", "length" (cut off at max_tokens), "content_filter"…
    :param prompt_tokens: sum over the replies, 0 if the server does not count.
    :param completion_tokens: likewise.
    :param fault: why replies are missing.
    """

    texts: tuple[str, ...]
    finish_reasons: tuple[str, ...]
    prompt_tokens: int
    completion_tokens: int
    fault: str | None


class ChatServer(Server):
    """A model served at ``{base_url}/chat/completions``: see :class:`~fathom.engine.models.calls.Server`."""

    def __init__(self, base_url: str, model: str, **options: Any) -> None:
        super().__init__(base_url, model, **options)
        self._limit_name = "max_tokens"
        self.identity = self._identity()

    def ask(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatReply]:
        """Reply to each request, in order; one that fails for good has a fault. Equal requests are sent once.

        :param progress: called with (calls done, all calls); a call is one sampled reply.
        :raises RunFailed: no further call can succeed (key refused, server gone, quota used up), or none has.
        """
        keyed = [[(request_key(call), call) for call in self._calls(request)] for request in requests]
        outcomes = self._outcomes({key: call for samples in keyed for key, call in samples}, progress)
        return [_reply([outcomes[key] for key, _ in samples]) for samples in keyed]

    def _calls(self, request: ChatRequest) -> Iterator[Call]:
        """Yield the call of each reply: the request, and the number of the sample."""
        system = [{"role": "system", "content": request.system}] if request.system else []
        examples = [
            {"role": role, "content": content}
            for example in request.examples
            for role, content in zip(("user", "assistant"), example, strict=True)
        ]
        messages = [*system, *examples, {"role": "user", "content": request.user}]
        call: Call = {"model": self.model, "messages": messages, "max_tokens": request.max_tokens}
        if request.temperature is not None:
            call["temperature"] = request.temperature
        for sample in range(request.n):
            seed = {} if request.seed is None else {"seed": request.seed + sample}
            yield call | seed | {"sample": sample}

    def _send(self, calls: Sequence[Call]) -> Any:
        import openai

        [call] = calls
        limit = {self._limit_name: call["max_tokens"]}
        body = {name: value for name, value in call.items() if name not in ("max_tokens", "sample")} | limit
        try:
            return self._client.chat.completions.with_raw_response.create(**body)
        except openai.BadRequestError as error:
            if "max_completion_tokens" not in str(error) or "max_tokens" not in limit:
                raise
            self._limit_name = "max_completion_tokens"  # OpenAI's reasoning models know no other name
            return self._send(calls)

    def _read(self, calls: Sequence[Call], body: Any) -> list[Answer]:
        try:
            choice = body["choices"][0]
            answer: Answer = {
                "text": _text(choice["message"].get("content")),
                "finish_reason": str(choice.get("finish_reason") or ""),
                **usage_of(body),
            }
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise Failure(f"expected a chat completion, found {excerpt_of(json.dumps(body))}", may_pass=True) from error
        return [answer]


def _text(content: Any) -> str:
    """Return a message's text, or that of its parts. :raises TypeError: there is none, or it is too long."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type", "text") == "text")
    if not isinstance(content, str | None) or len(content or "") > LONGEST_ANSWER:
        raise TypeError("no answer")
    return content or ""


def _reply(outcomes: Sequence[Answer | Failure]) -> ChatReply:
    answers = [outcome for outcome in outcomes if not isinstance(outcome, Failure)]
    faults = dict.fromkeys(str(outcome) for outcome in outcomes if isinstance(outcome, Failure))
    return ChatReply(
        tuple(answer["text"] for answer in answers),
        tuple(answer["finish_reason"] for answer in answers),
        sum(answer["prompt_tokens"] for answer in answers),
        sum(answer["completion_tokens"] for answer in answers),
        "; ".join(faults) or None,
    )
