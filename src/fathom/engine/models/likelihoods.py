"""Likelihoods of a served causal model: log-probabilities of the tokens of texts, by OpenAI's completions.

The protocol never defined how a prompt's own tokens are scored, so servers differ (:data:`DIALECTS`), and what this one
can do is determined with a known text. Its tokens must come back as the given tokenizer makes them. The log-probability
of a token in a prompt must equal the one that the server gives when it generates it. Otherwise the server is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.base.reading.replies import excerpt_of
from fathom.engine.models.base import Attention, Model
from fathom.engine.models.server import Call, Failure, Server, usage_of
from fathom.store.journal import Answer, request_key

TOGETHER = 16
"""Texts per call, if a call takes several."""
ABOVE = 1e-3
"""Rounding may make a log-probability this much greater than 0."""


class Text(NamedTuple):
    """A text to be scored. The field names are part of the keys in journals.

    :param ids: its tokens, including a first one that is only seen, shape (n,).
    :param text: its characters, for servers that take nothing else; without a BOS that *ids* begin with.
    :param start: the first token whose log-probability is wanted.
    """

    ids: tuple[int, ...]
    text: str
    start: int = 1


class ServedScores(NamedTuple):
    """A server's scores of one text.

    :param log_probs: of its last tokens, in nats; None if the server gives none.
    :param pieces: the characters of these tokens, None if the server shows none.
    """

    log_probs: list[float | None]
    pieces: list[str | None]


class Dialect(NamedTuple):
    """One way in which servers report the log-probabilities of a text.

    :param what: name in messages, manifests and keys of journals.
    :param by_ids: whether the text is sent as token ids.
    :param whole: whether it takes any text, in one call.
    :param most: texts per call.
    :param body: makes the request for some texts, without the model's name.
    :param read: reads the choice of a reply, given the text and the number of tokens generated after it.
    """

    what: str
    by_ids: bool
    whole: bool
    most: int
    body: Callable[[Sequence[Text]], Call]
    read: Callable[[Mapping[str, Any], Text, int], ServedScores]


def _ids(texts: Sequence[Text]) -> list[Any]:
    return [list(text.ids) for text in texts] if len(texts) > 1 else list(texts[0].ids)


def _prompt_logprobs_body(texts: Sequence[Text]) -> Call:
    return {"prompt": _ids(texts), "prompt_logprobs": 0, "max_tokens": 1}


def _read_prompt_logprobs(choice: Mapping[str, Any], text: Text, generated: int) -> ServedScores:
    """Read ``[null, {"12": {"logprob": …, "decoded_token": …}}, …]``: each token by its id."""
    _, *places = choice["prompt_logprobs"]
    entries = [place[str(token)] for place, token in zip(places, text.ids[1:], strict=True)]
    return ServedScores([_nats(entry["logprob"]) for entry in entries], [entry["decoded_token"] for entry in entries])


def _echo_body(texts: Sequence[Text]) -> Call:
    return {"prompt": _ids(texts), "echo": True, "logprobs": 1, "max_tokens": 1}


def echo_of_text_body(texts: Sequence[Text]) -> Call:
    """Return the request for one text as characters."""
    return {"prompt": texts[0].text, "echo": True, "logprobs": 1, "max_tokens": 1}


def _read_echo(choice: Mapping[str, Any], text: Text, generated: int, by_ids: bool = True) -> ServedScores:
    """Read ``{"tokens": […], "token_logprobs": [null, …]}``, which end with the generated tokens."""
    pieces, values = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
    count = min(len(text.ids), len(pieces)) if by_ids else len(pieces) - generated
    if len(pieces) != len(values) or count < 1 or (by_ids and count < len(text.ids)):
        raise TypeError("no log-probabilities of a prompt")
    return ServedScores([None if value is None else _nats(value) for value in values[:count]], pieces[:count])


def _forced_body(texts: Sequence[Text]) -> Call:
    """Name the tokens in a grammar of llama.cpp: the server generates the text itself, with log-probabilities."""
    [(ids, _, start)] = texts
    grammar = "root ::= " + " ".join(f"<[{token}]>" for token in ids[start:])
    return {"prompt": list(ids[:start]), "grammar": grammar, "logprobs": 1, "max_tokens": len(ids) - start}


def _read_forced(choice: Mapping[str, Any], text: Text, generated: int) -> ServedScores:
    entries = choice["logprobs"]["content"]
    if [entry["id"] for entry in entries] != list(text.ids[text.start :]):
        raise TypeError("other tokens than those of the grammar")
    return ServedScores([_nats(entry["logprob"]) for entry in entries], [entry["token"] for entry in entries])


DIALECTS = (
    Dialect("prompt_logprobs", True, True, TOGETHER, _prompt_logprobs_body, _read_prompt_logprobs),
    Dialect("echo of tokens", True, True, TOGETHER, _echo_body, _read_echo),
    Dialect("tokens forced by a grammar", True, False, 1, _forced_body, _read_forced),
    Dialect("echo of a text", False, True, 1, echo_of_text_body, partial(_read_echo, by_ids=False)),
)
"""vLLM; SGLang; llama.cpp's own server, which scores only what it generates; llama-cpp-python, which takes only text.
The most reliable comes first."""


@contextmanager
def _expecting(what: str, body: Any) -> Iterator[None]:
    """:raises Failure: the reply differs from what the block expects."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise Failure(f"expected {what}, found {excerpt_of(json.dumps(body))}") from error


def read_scores(dialect: Dialect, texts: Sequence[Text], body: Any) -> list[ServedScores]:
    """Read the scores of each text. :raises Failure: the reply has none."""
    with _expecting("log-probabilities of a prompt", body):
        choices = sorted(body["choices"], key=lambda choice: choice.get("index") or 0)
        generated = usage_of(body)["completion_tokens"] if isinstance(body.get("usage"), dict) else len(choices)
        return [dialect.read(choice, text, generated) for choice, text in zip(choices, texts, strict=True)]


def _nats(value: Any) -> float:
    """:raises TypeError: no log-probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value <= ABOVE:
        raise TypeError("no log-probability")
    return float(value)


def read_echo_of_text(body: Any) -> tuple[ServedScores, int]:
    """Read the scores of a text sent as characters, and its token count. :raises Failure: the reply has none."""
    [scores] = read_scores(DIALECTS[-1], [Text((), "")], body)
    return scores, usage_of(body)["prompt_tokens"]


def read_generated(body: Any) -> tuple[str, float]:
    """Read the characters of the first generated token, and its log-probability in nats.

    :raises Failure: there is none, or it has no log-probability.
    """
    with _expecting("a log-probability", body):
        logprobs = body["choices"][0].get("logprobs") or {}
        if content := logprobs.get("content"):
            return str(content[0]["token"]), _nats(content[0]["logprob"])
        return str(logprobs["tokens"][0]), _nats(logprobs["token_logprobs"][0])


def read_distribution(body: Any, wanted: Sequence[int]) -> list[float]:
    """Read the log-probabilities of some tokens as the next one. :raises Failure: one is missing."""
    with _expecting("log-probabilities of all tokens", body):
        [choice] = body["choices"]
        logprobs = choice["logprobs"]
        if content := logprobs.get("content"):
            likely = {int(top["id"]): top["logprob"] for top in content[0]["top_logprobs"]}
        else:
            tops = logprobs["top_logprobs"][0]
            likely = {int(name.removeprefix("token_id:")): value for name, value in tops.items()}
        return [_nats(likely[token]) for token in wanted]


T = TypeVar("T")
KNOWN = "In 1998, the naïve old town of Zürich had 12 pubs; it isn't so far from Basel – 85 km."
"""Sent to each server: digits, signs and letters that tokenizers cut in different ways."""
PREFIXES = ("The capital of Peru is", "It is", KNOWN)
"""After these the server generates a token, to compare with its score in a prompt."""
NEAR = 0.1
"""Nats by which two passes over the same tokens may differ in a server's precision; a shift by one place changes whole
nats."""
LEAST = 0.5
"""Nats below 0 that at least one token of the known text has for any model."""
ALIKE = 1e-3
"""Nats by which tokens of the known text differ at least, even for an untrained model."""
FROM = 64
"""Number of next tokens from which the whole distribution is cheaper than a text for each of them."""
SURELY = 100
"""Added to the logit of a token that is to be generated: the most that OpenAI's protocol allows."""
UNSHOWN = "\N{REPLACEMENT CHARACTER}"


class TextScores(NamedTuple):
    """:param log_probs: of each token in nats, NaN before the first wanted one, shape (n,); None if there are none.
    :param fault: the reason.
    """

    log_probs: NDArray[np.float32] | None
    fault: str | None


class LikelihoodServer(Server, Model):
    """A causal model served at ``{base_url}/completions``: see :class:`~fathom.engine.models.server.Server`.

    :param tokenizer: the model's own, which tokenises statements here.
    :raises BadInput: also a server that does not score prompts, or has another tokenizer.
    """

    attention = Attention.CAUSAL
    device = torch.device("cpu")
    """Where scores are stored."""
    stateless = "a server scores whole texts"

    def __init__(self, base_url: str, model: str, tokenizer: PreTrainedTokenizerBase, **options: Any) -> None:
        super().__init__(base_url, model, **options)
        self.tokenizer = tokenizer
        self.vocabulary_size = len(tokenizer)
        self.max_tokens = _window(self.listed or {})
        self._decoded = False
        self.dialect = self._find_dialect()
        self._together = self._find_most()
        self.identity = self._identity(tokenizer=tokenizer.backend_tokenizer.to_str())

    @property
    def engine(self) -> str:
        return f"server: {self.dialect.what}"

    def circumstances(self) -> Mapping[str, Any]:
        return {"engine": self.engine, **super().circumstances()}

    def log_probs(self, texts: Sequence[Text]) -> list[TextScores]:
        """Return log p(token | tokens before it), in nats, for the tokens of each text; equal texts are sent once.

        :raises RunFailed: no further call can succeed, or none has.
        """
        parts = {text: self._parts(text) for text in texts}
        calls = {text: [self._call_of(part) for part in pieces] for text, pieces in parts.items()}
        keys = {text: [request_key(call) for call in pieces] for text, pieces in calls.items()}
        keyed = {key: call for text in parts for key, call in zip(keys[text], calls[text], strict=True)}
        outcomes = self._outcomes(keyed, together=self._together)
        return [_combine(text, parts[text], [outcomes[key] for key in keys[text]]) for text in texts]

    def next_log_probs(self, texts: Sequence[Text], tokens: Sequence[int]) -> list[TextScores]:
        """Return log p(token | text) in nats, of the same tokens after each text, shape (tokens,) each.

        :raises RunFailed: as :meth:`log_probs`.
        """
        if len(tokens) >= FROM and self._gives_distribution:
            calls = [self._next_call(text.ids, tokens) for text in texts]
            keys = [request_key(call) for call in calls]
            outcomes = self._outcomes(dict(zip(keys, calls, strict=True)))
            return [_scores(outcomes[key]) for key in keys]
        scores = iter(self.log_probs([self._followed(text, token) for text in texts for token in tokens]))
        return [_last_tokens([next(scores) for _ in tokens]) for _ in texts]

    def _parts(self, text: Text) -> list[Text]:
        """Cut a text into what one call each can score."""
        if text.start >= len(text.ids):
            return []
        if self.dialect.whole:
            return [text]
        ends = {text.start, len(text.ids)}
        for place in range(text.start, len(text.ids)):
            if not self._has_letters(text.ids[place]):
                ends |= {place, place + 1}
        return [Text(text.ids[:end], "", start) for start, end in pairwise(sorted(ends))]

    def _call_of(self, part: Text) -> Call:
        """Return the call, whose content is also its key in the journal."""
        if not self.dialect.whole and not self._has_letters(part.ids[part.start]):
            return self._next_call(part.ids[: part.start], part.ids[part.start :])
        return {"model": self.model, "way": self.dialect.what, **part._asdict()}

    def _next_call(self, ids: Sequence[int], tokens: Sequence[int]) -> Call:
        """Return the call for the whole distribution after a text, of which *tokens* are wanted."""
        body = {"prompt": list(ids), "logprobs": self.vocabulary_size, "max_tokens": 1}
        body["return_tokens_as_token_ids"] = True  # vLLM: characters do not identify tokens
        if not self.dialect.whole:
            body["logit_bias"] = {str(self._plain): SURELY}  # llama.cpp reports no parts of characters it generates
        return {"model": self.model, "body": body, "wanted": list(tokens)}

    @cached_property
    def _plain(self) -> int:
        return int(self.tokenizer("a", add_special_tokens=False)["input_ids"][-1])

    def _has_letters(self, token: int) -> bool:
        return token not in self._special and UNSHOWN not in self._letters([token])

    @cached_property
    def _special(self) -> frozenset[int]:
        added = self.tokenizer.added_tokens_decoder
        return frozenset(number for number, token in added.items() if token.special)

    def _followed(self, text: Text, token: int) -> Text:
        ids = (*text.ids, token)
        return Text(ids, text.text + self._letters(ids)[len(self._letters(text.ids)) :], len(text.ids))

    def _letters(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))

    def _send(self, calls: Sequence[Call]) -> Any:
        if "body" in calls[0]:
            return self._completion(calls[0]["body"])
        return self._completion(self.dialect.body([self._as_sent(_text_of(call)) for call in calls]))

    def _completion(self, body: Call) -> Any:
        further = {name: value for name, value in body.items() if name != "prompt"} | {"temperature": 0}
        create = self._client.completions.with_raw_response.create
        return create(model=self.model, prompt=body["prompt"], extra_body=further)

    def _as_sent(self, text: Text) -> Text:
        """Set the characters that a server which takes no tokens turns into these."""
        if self.dialect.by_ids:
            return text
        begins = self._begins(text.ids)
        letters = self._letters(text.ids[begins:]) if self._decoded else text.text
        if not begins:
            return text._replace(text=letters)
        bos = str(self.tokenizer.bos_token)
        letters = letters.removeprefix(bos)
        return text._replace(text=letters if self.adds_bos else bos + letters)

    def _begins(self, ids: Sequence[int]) -> bool:
        return self.tokenizer.bos_token_id is not None and list(ids[:1]) == [self.tokenizer.bos_token_id]

    def _read(self, calls: Sequence[Call], body: Any) -> Sequence[Answer | Failure]:
        usage = usage_of(body)
        if "body" in calls[0]:
            return [{"log_probs": read_distribution(body, calls[0]["wanted"]), **usage}]
        answers: list[Answer | Failure] = []
        texts = [_text_of(call) for call in calls]
        for text, scores in zip(texts, read_scores(self.dialect, texts, body), strict=True):
            fault = self._difference(text, scores, 0 if self.dialect.by_ids else usage["prompt_tokens"])
            answers.append(Failure(fault) if fault else {"log_probs": _wanted(text, scores), **usage})
            usage = dict.fromkeys(usage, 0)  # counted once per call
        return answers

    def _difference(self, text: Text, scores: ServedScores, counted: int = 0) -> str | None:
        """Return how the server's tokens differ from these."""
        count, pieces = len(text.ids), len(scores.pieces)
        unshown = {1, text.start} if self.dialect.by_ids else {int(self._begins(text.ids))}
        if counted not in (0, count) or count - pieces not in {0, *unshown}:
            served = counted if counted not in (0, count) else pieces
            return self._count_difference(text.text, served, count)
        for token, piece in zip(text.ids[count - pieces :], scores.pieces, strict=True):
            if piece and UNSHOWN not in piece and not self._looks_like(token, piece):
                expected = excerpt_of(self._letters([token]), 40)
                return f"where the tokenizer has '{expected}', the server has '{excerpt_of(piece, 40)}'"
        return None

    @staticmethod
    def _count_difference(text: str, served: int, count: int) -> str:
        return f"of '{excerpt_of(text, 40)}' the server makes {served} tokens, the tokenizer {count}"

    def _looks_like(self, token: int, piece: str) -> bool:
        """Compare a token with the server's characters."""
        alone, inside = self._letters([token]), self._letters([self._plain, token])[len(self._letters([self._plain])) :]
        if UNSHOWN in alone:
            return True
        return alone.strip() == piece.strip() if self.dialect.by_ids else piece in (alone, inside)

    # Capabilities of the server

    def _find_dialect(self) -> Dialect:
        """:raises BadInput: none works, or the tokenizer is not the model's."""
        refusals, differences = [], []
        for dialect in DIALECTS:
            self.dialect = dialect  # used by the calls below
            try:
                difference = self._try_ids() if dialect.by_ids else self._try_text()
            except Failure as failure:
                if failure.is_final:
                    raise BadInput(f"{self.base_url}: {failure}") from failure
                refusals.append(f"{dialect.what}: {failure}")
                continue
            if difference is None:
                return dialect
            differences.append(difference)
        if not differences and (difference := self._counts_differ()) is not None:
            differences.append(difference)  # a server reports nothing on ids outside its vocabulary
        if differences:
            raise BadInput(
                f"--tokenizer {self.tokenizer.name_or_path} is not that of '{self.model}' at {self.base_url}: "
                f"{differences[0]}"
            )
        raise BadInput(
            f"{self.base_url}: '{self.model}' gives no log-probabilities of a prompt, as vLLM, SGLang, llama.cpp's "
            f"server and llama-cpp-python (with --logits_all true) do; it was asked for {'; '.join(refusals)}"
        )

    def _counts_differ(self) -> str | None:
        """Compare the number of tokens of the known text, if the server counts them."""
        count = len(self._known.ids) - self._begins(self._known.ids)
        try:
            served = self._once({"prompt": KNOWN, "max_tokens": 1}, usage_of)["prompt_tokens"]
        except Failure:
            return None
        near = not served or abs(served - count) <= 1  # one puts BOS before it, another a space
        return None if near else self._count_difference(KNOWN, served, count)

    def _try_ids(self) -> str | None:
        """Compare the tokens of the known text with those that come back."""
        scores = self._score(self._known)
        if (difference := self._difference(self._known, scores)) is None:
            self._check_scores(scores)
        return difference

    def _try_text(self) -> str | None:
        """Compare the server's tokens of the known text."""
        bare = self._known.ids[self._begins(self._known.ids) :]
        difference = None
        for decoded in (False, True):
            body = echo_of_text_body([Text(bare, self._letters(bare) if decoded else KNOWN)])
            scores, counted = self._once(body, read_echo_of_text)
            self._decoded, self.adds_bos = decoded, (counted or len(scores.pieces)) == len(bare) + 1
            text = self._known if self.adds_bos else self._known._replace(ids=bare)
            difference = self._difference(text, scores, counted)
            if difference is None:
                self.lacks_first = self.adds_bos and scores.log_probs[-len(bare)] is None
                self._check_scores(scores)
                return None
        return difference

    @property
    def _known(self) -> Text:
        return self._encode(KNOWN)

    def _encode(self, letters: str) -> Text:
        """Tokenise with BOS if the tokenizer has one."""
        ids = list(self.tokenizer(letters, add_special_tokens=False, verbose=False)["input_ids"])
        bos = self.tokenizer.bos_token_id
        return Text(tuple(ids if bos is None or self._begins(ids) else [bos, *ids]), letters)

    def _score(self, text: Text) -> ServedScores:
        """Return the scores of a text. :raises Failure: there are none."""
        pieces: list[str | None] = []
        values: list[float | None] = []
        for part in self._parts(text):
            call = self._call_of(part)
            if "body" in call:
                values += self._once(call["body"], partial(read_distribution, wanted=call["wanted"]))
                pieces.append(None)
                continue
            [scores] = self._once(self.dialect.body([self._as_sent(part)]), partial(read_scores, self.dialect, [part]))
            pieces, values = pieces + scores.pieces, values + scores.log_probs
        return ServedScores(values, pieces)

    def _once(self, body: Call, read: Callable[[Any], T]) -> T:
        """Send a call without retries. :raises Failure: the reply cannot be read."""
        self._stopped.clear()
        return self._call(lambda: self._completion(body), read, retries=0)

    def _works(self, body: Call, read: Callable[[Any], object]) -> bool:
        try:
            self._once(body, read)
        except Failure:
            return False
        return True

    def _check_scores(self, scores: ServedScores) -> None:
        """Check that scores vary, and compare those of generated tokens with those at the end of longer prompts."""
        scored = [value for value in scores.log_probs if value is not None]
        if len(scored) > 1 and (max(scored) - min(scored) < ALIKE or min(scored) > -LEAST):
            raise BadInput(
                f"{self.base_url}: '{self.model}' gives the tokens of '{KNOWN}' from {min(scored):.3f} to "
                f"{max(scored):.3f} nats, as no model does ({self.dialect.what})"
            )
        for letters in PREFIXES:
            text = self._encode(letters)
            prompt = list(text.ids) if self.dialect.by_ids else self._as_sent(text).text
            try:
                shown, log_prob = self._once({"prompt": prompt, "logprobs": 1, "max_tokens": 1}, read_generated)
            except Failure:
                continue  # no token: some servers do not show the end
            if UNSHOWN in shown or not shown.strip():
                continue  # part of a character, or nothing that could be sent
            values = self._read_after(text, shown)
            if not values:
                continue
            if any(value is not None and abs(value - log_prob) <= NEAR for value in values):
                continue
            token = excerpt_of(shown, 40)
            raise BadInput(
                f"{self.base_url}: '{self.model}' contradicts itself: after '{letters}' the token '{token}' has "
                f"{log_prob:.3f} nats when generated, {values[0]} when read ({self.dialect.what})"
            )

    def _read_after(self, text: Text, letters: str) -> list[float | None]:
        """Return log-probabilities after *text* of the tokens that *letters* may be."""
        if self.dialect.by_ids:
            longer = [Text((*text.ids, token), "", len(text.ids)) for token in self._tokens_of(letters)]
            return [self._score(candidate).log_probs[-1] for candidate in longer]
        body = echo_of_text_body([Text((), self._as_sent(text).text + letters)])
        scores, _ = self._once(body, read_echo_of_text)
        return scores.log_probs[-1:] if scores.pieces[-1] == letters else []

    def _tokens_of(self, letters: str) -> list[int]:
        """Return the tokens with these characters, with or without a space before them."""
        decoded = self.tokenizer.batch_decode([[token] for token in range(self.vocabulary_size)])
        return [token for token, shown in enumerate(decoded) if shown.strip() == letters.strip()]

    def _find_most(self) -> int:
        if self.dialect.most == 1:
            return 1
        both = [self._known, self._known]
        works = self._works(self.dialect.body(both), partial(read_scores, self.dialect, both))
        return self.dialect.most if works else 1

    @cached_property
    def _gives_distribution(self) -> bool:
        """Check whether the server gives the whole distribution of the next token, by token ids."""
        if not self.dialect.by_ids:
            return False
        call = self._next_call(self._known.ids, range(self.vocabulary_size))
        return self._works(call["body"], partial(read_distribution, wanted=call["wanted"]))


def _window(listed: Mapping[str, Any]) -> int | None:
    """Return the longest text: one token less than the server's window, as it generates a token after each."""
    meta = listed.get("meta") or {}
    sizes = (listed.get("max_model_len"), meta.get("n_ctx"), meta.get("n_ctx_train"))
    return next((size - 1 for size in sizes if type(size) is int and size > 1), None)


def _text_of(call: Call) -> Text:
    return Text(tuple(call["ids"]), call["text"], call["start"])


def _wanted(text: Text, scores: ServedScores) -> list[float | None]:
    missing = len(text.ids) - len(scores.log_probs)
    return ([None] * missing + scores.log_probs)[text.start :]


def _combine(text: Text, parts: Sequence[Text], outcomes: Sequence[Answer | Failure]) -> TextScores:
    values = np.full(len(text.ids), np.nan, dtype=np.float32)
    for part, outcome in zip(parts, outcomes, strict=True):
        if (scores := _scores(outcome)).log_probs is None:
            return scores
        values[part.start : len(part.ids)] = scores.log_probs
    return TextScores(values, None)


def _scores(outcome: Answer | Failure) -> TextScores:
    if isinstance(outcome, Failure):
        return TextScores(None, f"the server did not score it: {outcome}")
    values = [np.nan if value is None else value for value in outcome["log_probs"]]
    return TextScores(np.array(values, dtype=np.float32), None)


def _last_tokens(scores: Sequence[TextScores]) -> TextScores:
    """Combine the last token of each; a fault of one is the fault of all."""
    values = []
    for text in scores:
        if text.log_probs is None:
            return text
        values.append(text.log_probs[-1])
    return TextScores(np.array(values, dtype=np.float32), None)
