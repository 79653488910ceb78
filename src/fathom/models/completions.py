"""What servers are sent and what they reply, where log-probabilities of a text are wanted from OpenAI's completions.

That protocol never said how the prompt's own tokens are scored, so servers differ: :data:`WAYS` are their ways.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from fathom.models.calls import Call, Failure, count_of
from fathom.reading.replies import words_of

TOGETHER = 16
"""Texts per call, where a call takes several."""
ABOVE = 1e-3
"""Rounding may make a log-probability this much greater than 0."""


class Text(NamedTuple):
    """What is to be scored.

    :param ids: its tokens, what the model is to see first included, shape (n,).
    :param text: the same in letters, for servers that take nothing else; without a BOS that *ids* begin with.
    :param start: the first token whose log-probability is wanted.
    """

    ids: tuple[int, ...]
    text: str
    start: int = 1


class Told(NamedTuple):
    """What a server says of one text.

    :param log_probs: of its tokens, as many as are told; the last is the text's last.
    :param pieces: these tokens in letters, None where the server shows none.
    """

    log_probs: list[float | None]
    pieces: list[str | None]


class Written(NamedTuple):
    """A token that the server writes, in letters, and its log-probability in nats."""

    letters: str
    log_prob: float


class Way(NamedTuple):
    """One way in which servers tell the log-probabilities of a text.

    :param what: as in messages and manifests.
    :param by_ids: whether the text is sent as tokens.
    :param whole: whether it takes any text, in one call.
    :param most: texts per call.
    :param body: what is sent for some texts, besides the model's name.
    :param read: what is told in the choice of a reply, of this text, behind which so many tokens were written.
    """

    what: str
    by_ids: bool
    whole: bool
    most: int
    body: Callable[[Sequence[Text]], Call]
    read: Callable[[Mapping[str, Any], Text, int], Told]


def _ids(texts: Sequence[Text]) -> list[Any]:
    """As servers take the tokens of one text, or of several."""
    return [list(text.ids) for text in texts] if len(texts) > 1 else list(texts[0].ids)


def _ask_prompt_logprobs(texts: Sequence[Text]) -> Call:
    return {"prompt": _ids(texts), "prompt_logprobs": 0, "max_tokens": 1}


def _read_prompt_logprobs(choice: Mapping[str, Any], text: Text, written: int) -> Told:
    """``[null, {"12": {"logprob": …, "decoded_token": …}}, …]``: each token, by its number."""
    _, *places = choice["prompt_logprobs"]
    at = [place[str(token)] for place, token in zip(places, text.ids[1:], strict=True)]
    return Told([_nats(told["logprob"]) for told in at], [told["decoded_token"] for told in at])


def _ask_echo(texts: Sequence[Text]) -> Call:
    return {"prompt": _ids(texts), "echo": True, "logprobs": 1, "max_tokens": 1}


def ask_echo_of_text(texts: Sequence[Text]) -> Call:
    return {"prompt": texts[0].text, "echo": True, "logprobs": 1, "max_tokens": 1}


def _read_echo(choice: Mapping[str, Any], text: Text, written: int, by_ids: bool = True) -> Told:
    """``{"tokens": […], "token_logprobs": [null, …]}``, and what it wrote behind the text. llama-cpp-python leaves out
    BOS, and the log-probability of the token behind it."""
    pieces, values = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
    kept = min(len(text.ids), len(pieces)) if by_ids else len(pieces) - written
    if len(pieces) != len(values) or kept < 1 or (by_ids and kept < len(text.ids)):
        raise TypeError("no log-probabilities of a prompt")
    return Told([None if one is None else _nats(one) for one in values[:kept]], pieces[:kept])


def _ask_forced(texts: Sequence[Text]) -> Call:
    """llama.cpp's grammars can name tokens: it writes the text itself, and says how likely each token was."""
    [(ids, _, start)] = texts
    grammar = "root ::= " + " ".join(f"<[{token}]>" for token in ids[start:])
    return {"prompt": list(ids[:start]), "grammar": grammar, "logprobs": 1, "max_tokens": len(ids) - start}


def _read_forced(choice: Mapping[str, Any], text: Text, written: int) -> Told:
    at = choice["logprobs"]["content"]
    if [token["id"] for token in at] != list(text.ids[text.start :]):
        raise TypeError("other tokens than those it was to write")
    return Told([_nats(token["logprob"]) for token in at], [token["token"] for token in at])


WAYS = (
    Way("prompt_logprobs", True, True, TOGETHER, _ask_prompt_logprobs, _read_prompt_logprobs),
    Way("echo of tokens", True, True, TOGETHER, _ask_echo, _read_echo),
    Way("tokens forced by a grammar", True, False, 1, _ask_forced, _read_forced),
    Way("echo of a text", False, True, 1, ask_echo_of_text, partial(_read_echo, by_ids=False)),
)
"""vLLM; SGLang; llama.cpp's own server, which scores only what it writes; llama-cpp-python, which takes only texts."""


@contextmanager
def _expecting(what: str, body: Any) -> Iterator[None]:
    """:raises Failure: the reply is another than the block expects."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Failure(f"expected {what}, found {words_of(json.dumps(body))}") from error


def all_told(way: Way, texts: Sequence[Text], body: Any) -> list[Told]:
    """What is told of each text. :raises Failure: nothing of this kind."""
    with _expecting("log-probabilities of a prompt", body):
        choices = sorted(body["choices"], key=lambda choice: choice.get("index") or 0)
        written = counted_of(body)["completion_tokens"] if isinstance(body.get("usage"), dict) else len(choices)
        return [way.read(choice, text, written) for choice, text in zip(choices, texts, strict=True)]


def counted_of(body: Any) -> dict[str, int]:
    """Tokens of a call as the server counts them, 0 where it does not."""
    usage = body.get("usage") if isinstance(body, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    return {name: count_of(usage.get(name)) for name in ("prompt_tokens", "completion_tokens")}


def _nats(value: Any) -> float:
    """:raises TypeError: no log-probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= ABOVE:
        raise TypeError("no log-probability")
    return float(value)


def sole(body: Any) -> tuple[Told, int]:
    """Of a text that was sent in letters, and how many tokens the server counts. :raises Failure: nothing."""
    [told] = all_told(WAYS[-1], [Text((), "")], body)
    return told, counted_of(body)["prompt_tokens"]


def first_written(body: Any) -> Written:
    """What it writes. :raises Failure: nothing, or without its log-probability."""
    with _expecting("a log-probability", body):
        found = _written(body["choices"][0])
        if found is None:
            raise TypeError("no log-probability")
        return found


def _written(choice: Mapping[str, Any]) -> Written | None:
    """The first token written, in either form in which servers tell of it."""
    told = choice.get("logprobs") or {}
    if content := told.get("content"):
        return Written(str(content[0]["token"]), _nats(content[0]["logprob"]))
    if told.get("tokens"):
        return Written(str(told["tokens"][0]), _nats(told["token_logprobs"][0]))
    return None


def distribution(body: Any, wanted: Sequence[int]) -> list[float]:
    """Log-probabilities of some tokens as the next one. :raises Failure: one is missing."""
    with _expecting("log-probabilities of all tokens", body):
        [choice] = body["choices"]
        told = choice["logprobs"]
        if content := told.get("content"):
            likely = {int(top["id"]): top["logprob"] for top in content[0]["top_logprobs"]}
        else:
            tops = told["top_logprobs"][0]
            likely = {int(name.removeprefix("token_id:")): value for name, value in tops.items()}
        return [_nats(likely[token]) for token in wanted]
