"""Likelihoods of a causal model behind a server: log-probabilities of the tokens of texts, by OpenAI's completions.

That protocol never said how the prompt's own tokens are scored, so servers differ. What this one can do is found by
asking it of a known text, in the ways of :data:`WAYS`, the surest first. The text's tokens must come back as the given
tokenizer makes them, and the log-probability of a token in a prompt must be that which the server gives when it writes
the token itself; else nothing is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from fathom.errors import BadInput
from fathom.models.base import Attention, Identity
from fathom.models.calls import Call, Failure, Server
from fathom.models.completions import (
    WAYS,
    Text,
    Told,
    Way,
    all_told,
    ask_echo_of_text,
    counted_of,
    distribution,
    first_written,
    sole,
)
from fathom.reading.replies import words_of
from fathom.store.journal import Answer, request_key

T = TypeVar("T")
KNOWN = "In 1998, the naïve old town of Zürich had 12 pubs; it isn't so far from Basel – 85 km."
"""Asked of every server: digits, signs and letters that tokenizers cut in different ways."""
BEGINNINGS = ("The capital of Peru is", "It is", KNOWN)
"""Behind these the server writes a token, to see whether it reads it alike."""
NEAR = 0.1
"""Nats by which two passes over the same tokens may differ in the precision of a server; places that are off by one
differ by whole nats."""
FROM = 64
"""As many tokens are asked for at least, for the whole distribution to be cheaper than a text for each of them."""
SURELY = 100
"""Added to the logit of a token that is to be written: the most that OpenAI's protocol allows."""
UNSHOWN = "\N{REPLACEMENT CHARACTER}"


class Scores(NamedTuple):
    """:param log_probs: of each token in nats, NaN before the first that is wanted, shape (n,); None where there are
        none.
    :param fault: why.
    """

    log_probs: NDArray[np.float32] | None
    fault: str | None


class LikelihoodServer(Server):
    """A causal model behind ``{base_url}/completions``, for probes that want likelihoods: see
    :class:`~fathom.models.calls.Server`. Of :class:`fathom.models.base.Model` it has what needs no states.

    :param tokenizer: the model's own, with which statements are tokenised here.
    :raises BadInput: also a server that does not score prompts, or has another tokenizer.
    """

    attention = Attention.CAUSAL
    takes_vectors = False
    device = torch.device("cpu")
    """Where its scores are put."""

    def __init__(self, base_url: str, model: str, tokenizer: PreTrainedTokenizerBase, **told: Any) -> None:
        super().__init__(base_url, model, **told)
        self.tokenizer = tokenizer
        self.vocabulary_size = len(tokenizer)
        self.max_tokens = _window(self.listed or {})
        self.adds_bos = False
        """Whether it takes texts alone and puts BOS before each."""
        self.lacks_first = False
        """Whether it tells no log-probability of the token behind BOS."""
        self._decoded = False
        self.way = self._find_way()
        """In which the server tells log-probabilities."""
        self._together = self._find_most()
        fingerprint = {
            "base_url": self.base_url,
            "model": model,
            "listed": self.listed,
            "tokenizer": tokenizer.backend_tokenizer.to_str(),
        }
        self.identity = Identity(model, None, "server", request_key(fingerprint))

    @property
    def engine(self) -> str:
        """How it is asked, for manifests."""
        return f"server: {self.way.what}"

    def refuses_tree(self) -> str:
        """See :meth:`fathom.models.base.Model.refuses_tree`: always."""
        return "a server scores whole texts"

    refuses_cache = refuses_states = refuses_tree

    def log_probs(self, texts: Sequence[Text]) -> list[Scores]:
        """log p(token | tokens before it), in nats, for the tokens of every text; equal ones are asked once.

        :raises RunFailed: no further call can work, or none of these has worked.
        """
        parts = {text: self._parts(text) for text in texts}
        calls = {text: [self._call_of(part) for part in own] for text, own in parts.items()}
        keys = {text: [request_key(call) for call in own] for text, own in calls.items()}
        asked = {key: call for text in parts for key, call in zip(keys[text], calls[text], strict=True)}
        outcomes = self._outcomes(asked, together=self._together)
        return [_put_together(text, parts[text], [outcomes[key] for key in keys[text]]) for text in texts]

    def next_log_probs(self, texts: Sequence[Text], tokens: Sequence[int]) -> list[Scores]:
        """log p(token | text) in nats, of the same tokens behind every text, shape (tokens,) each.

        :raises RunFailed: as :meth:`log_probs`.
        """
        if len(tokens) >= FROM and self._tells_all:
            calls = [self._call_for_next(text.ids, tokens) for text in texts]
            keys = [request_key(call) for call in calls]
            outcomes = self._outcomes(dict(zip(keys, calls, strict=True)))
            return [_scores(outcomes[key]) for key in keys]
        found = iter(self.log_probs([self._followed(text, token) for text in texts for token in tokens]))
        return [_last_of([next(found) for _ in tokens]) for _ in texts]

    def _parts(self, text: Text) -> list[Text]:
        """What one call each can score. A grammar knows letters alone: tokens that are pieces of one, or none, are
        asked for one by one."""
        if text.start >= len(text.ids):
            return []
        if self.way.whole:
            return [text]
        ends = [text.start, len(text.ids)]
        for place in range(text.start, len(text.ids)):
            if not self._has_letters(text.ids[place]):
                ends += [place, place + 1]
        ends = sorted(set(ends))
        return [Text(text.ids[:end], "", start) for start, end in pairwise(ends)]

    def _call_of(self, part: Text) -> Call:
        """What tells it from others, in the journal, too."""
        if not self.way.whole and not self._has_letters(part.ids[part.start]):
            return self._call_for_next(part.ids[: part.start], part.ids[part.start :])
        return {"model": self.model, "way": self.way.what, **part._asdict()}

    def _call_for_next(self, ids: Sequence[int], tokens: Sequence[int]) -> Call:
        """For the whole distribution behind a text, of which some tokens are wanted."""
        body = {"prompt": list(ids), "logprobs": self.vocabulary_size, "max_tokens": 1}
        body["return_tokens_as_token_ids"] = True  # vLLM: letters are no names of tokens
        if not self.way.whole:
            body["logit_bias"] = {str(self._plain): SURELY}  # llama.cpp tells nothing of pieces of letters it writes
        return {"model": self.model, "body": body, "wanted": list(tokens)}

    @cached_property
    def _plain(self) -> int:
        """A token of letters alone."""
        return int(self.tokenizer("a", add_special_tokens=False)["input_ids"][-1])

    def _has_letters(self, token: int) -> bool:
        return token not in self._signs and UNSHOWN not in self._letters([token])

    @cached_property
    def _signs(self) -> frozenset[int]:
        """Tokens that are no text."""
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
        return self._completion(self.way.body([self._as_sent(_text_of(call)) for call in calls]))

    def _completion(self, body: Call) -> Any:
        further = {name: value for name, value in body.items() if name != "prompt"} | {"temperature": 0}
        create = self._client.completions.with_raw_response.create
        return create(model=self.model, prompt=body["prompt"], extra_body=further)

    def _as_sent(self, text: Text) -> Text:
        """With the letters of which a server that takes no tokens makes these."""
        if self.way.by_ids:
            return text
        begins = self._begins(text.ids)
        letters = self._letters(text.ids[begins:]) if self._decoded else text.text
        if not begins:
            return text._replace(text=letters)
        sign = str(self.tokenizer.bos_token)
        letters = letters.removeprefix(sign)
        return text._replace(text=letters if self.adds_bos else sign + letters)

    def _begins(self, ids: Sequence[int]) -> bool:
        """Whether BOS stands first."""
        return self.tokenizer.bos_token_id is not None and list(ids[:1]) == [self.tokenizer.bos_token_id]

    def _read(self, calls: Sequence[Call], body: Any) -> Sequence[Answer | Failure]:
        counted = counted_of(body)
        if "body" in calls[0]:
            return [{"log_probs": distribution(body, calls[0]["wanted"]), **counted}]
        answers: list[Answer | Failure] = []
        texts = [_text_of(call) for call in calls]
        for text, told in zip(texts, all_told(self.way, texts, body), strict=True):
            fault = self._difference(text, told, 0 if self.way.by_ids else counted["prompt_tokens"])
            answers.append(Failure(fault) if fault else {"log_probs": _wanted(text, told), **counted})
            counted = dict.fromkeys(counted, 0)  # they are of the call as a whole
        return answers

    def _difference(self, text: Text, told: Told, counted: int = 0) -> str | None:
        """Why what is told is not about these tokens.

        :param counted: tokens of the text, as the server says; 0 where it does not.
        """
        count, shown = len(text.ids), len(told.pieces)
        unshown = {1, text.start} if self.way.by_ids else {int(self._begins(text.ids))}
        if counted not in (0, count) or count - shown not in {0, *unshown}:
            made = counted if counted not in (0, count) else shown
            return f"of '{words_of(text.text, 40)}' the server makes {made} tokens, the tokenizer {count}"
        for token, piece in zip(text.ids[count - shown :], told.pieces, strict=True):
            if piece and UNSHOWN not in piece and not self._looks_like(token, piece):
                own = words_of(self._letters([token]), 40)
                return f"where the tokenizer has '{own}', the server has '{words_of(piece, 40)}'"
        return None

    def _looks_like(self, token: int, piece: str) -> bool:
        """Some servers leave out the space before a word. Where tokens are sent that does no harm; where the server
        makes them, the space tells one from another, unless the tokenizer leaves it out, too (SentencePiece)."""
        own, inside = self._letters([token]), self._letters([self._plain, token])[len(self._letters([self._plain])) :]
        if UNSHOWN in own:
            return True
        return own.strip() == piece.strip() if self.way.by_ids else piece in (own, inside)

    # What the server can do

    def _find_way(self) -> Way:
        """:raises BadInput: in none, or the tokenizer is not the model's."""
        refusals, differences = [], []
        for way in WAYS:
            self.way = way  # what is asked below asks in this way
            try:
                difference = self._tried_ids() if self.way.by_ids else self._tried_text()
            except Failure as failure:
                if failure.is_final:
                    raise BadInput(f"{self.base_url}: {failure}") from failure
                refusals.append(f"{way.what}: {failure}")
                continue
            if difference is None:
                return way
            differences.append(difference)
        if not differences and (difference := self._counts_differ()) is not None:
            differences.append(difference)  # of numbers that it has not, a server says nothing
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
        """Of the known text in letters, as far as a server counts its tokens."""
        count = len(self._known.ids) - self._begins(self._known.ids)
        try:
            made = self._once({"prompt": KNOWN, "max_tokens": 1}, counted_of)["prompt_tokens"]
        except Failure:
            return None
        near = not made or abs(made - count) <= 1  # one puts BOS before it, another a space
        return None if near else f"of '{words_of(KNOWN, 40)}' the server makes {made} tokens, the tokenizer {count}"

    def _tried_ids(self) -> str | None:
        """Whether the tokens of the known text come back as they should.

        :returns: in what they are others.
        :raises Failure: the server does not score prompts in this way.
        :raises BadInput: its scores contradict one another.
        """
        text = self._known
        told = self._asked(text)
        if (difference := self._difference(text, told)) is None:
            self._check_places()
        return difference

    def _tried_text(self) -> str | None:
        """Whether the server makes the same tokens of the known text. A tokenizer may put a space before it, which the
        server's does not: so the tokens are also tried in letters."""
        bare = self._known.ids[self._begins(self._known.ids) :]
        difference = None
        for decoded in (False, True):
            told, counted = self._once(ask_echo_of_text([Text(bare, self._letters(bare) if decoded else KNOWN)]), sole)
            self._decoded, self.adds_bos = decoded, (counted or len(told.pieces)) == len(bare) + 1
            text = self._known if self.adds_bos else self._known._replace(ids=bare)
            difference = self._difference(text, told, counted)
            if difference is None:
                self.lacks_first = self.adds_bos and told.log_probs[-len(bare)] is None
                self._check_places()
                return None
        return difference

    @property
    def _known(self) -> Text:
        return self._spoken(KNOWN)

    def _spoken(self, letters: str) -> Text:
        """With BOS where the tokenizer has one."""
        ids = list(self.tokenizer(letters, add_special_tokens=False, verbose=False)["input_ids"])
        bos = self.tokenizer.bos_token_id
        return Text(tuple(ids if bos is None or self._begins(ids) else [bos, *ids]), letters)

    def _asked(self, text: Text) -> Told:
        """What is told of a text, put together. :raises Failure: nothing."""
        pieces: list[str | None] = []
        values: list[float | None] = []
        for part in self._parts(text):
            call = self._call_of(part)
            if "body" in call:
                values += self._once(call["body"], partial(distribution, wanted=call["wanted"]))
                pieces.append(None)
                continue
            [told] = self._once(self.way.body([self._as_sent(part)]), partial(all_told, self.way, [part]))
            pieces, values = pieces + told.pieces, values + told.log_probs
        return Told(values, pieces)

    def _once(self, body: Call, read: Callable[[Any], T]) -> T:
        """What a call says, not tried again. :raises Failure: nothing that can be read."""
        self._stopped.clear()
        return self._call(lambda: self._completion(body), read, retries=0)

    def _check_places(self) -> None:
        """The token that the server writes behind a text must be as likely as it is at the end of a longer text.

        :raises BadInput: it is not; some servers tell of the token behind, or of what their sampling leaves.
        """
        for letters in BEGINNINGS:
            text = self._spoken(letters)
            prompt = list(text.ids) if self.way.by_ids else self._as_sent(text).text
            try:
                written = self._once({"prompt": prompt, "logprobs": 1, "max_tokens": 1}, first_written)
            except Failure:
                continue  # nothing: some servers do not show the end
            if UNSHOWN in written.letters or not written.letters.strip():
                continue  # part of a letter, or nothing that could be sent
            values = self._read_behind(text, written.letters)
            if not values:
                continue
            if any(value is not None and abs(value - written.log_prob) <= NEAR for value in values):
                return
            token = words_of(written.letters, 40)
            raise BadInput(
                f"{self.base_url}: '{self.model}' contradicts itself: behind '{letters}' the token '{token}' has "
                f"{written.log_prob:.3f} nats where it is written, {values[0]} where it is read ({self.way.what})"
            )

    def _read_behind(self, text: Text, letters: str) -> list[float | None]:
        """Log-probabilities of the tokens that the letters may be."""
        if self.way.by_ids:
            longer = [Text((*text.ids, token), "", len(text.ids)) for token in self._tokens_of(letters)]
            return [self._asked(one).log_probs[-1] for one in longer]
        told, _ = self._once(ask_echo_of_text([Text((), self._as_sent(text).text + letters)]), sole)
        return told.log_probs[-1:] if told.pieces[-1] == letters else []

    def _tokens_of(self, letters: str) -> list[int]:
        """Tokens that look like these letters, with or without a space before them."""
        every = self.tokenizer.batch_decode([[token] for token in range(self.vocabulary_size)])
        return [token for token, own in enumerate(every) if own.strip() == letters.strip()]

    def _find_most(self) -> int:
        """Texts that a call can take."""
        if self.way.most == 1:
            return 1
        both = [self._known, self._known]
        try:
            self._once(self.way.body(both), partial(all_told, self.way, both))
        except Failure:
            return 1
        return self.way.most

    @cached_property
    def _tells_all(self) -> bool:
        """Whether the server gives the whole distribution of the next token, by numbers of tokens."""
        if not self.way.by_ids:
            return False
        call = self._call_for_next(self._known.ids, range(self.vocabulary_size))
        try:
            self._once(call["body"], partial(distribution, wanted=call["wanted"]))
        except Failure:
            return False
        return True


def _window(listed: Mapping[str, Any]) -> int | None:
    """The longest text, as the server says: one token less than it can hold, as it writes one behind each."""
    meta = listed.get("meta") or {}
    said = (listed.get("max_model_len"), meta.get("n_ctx"), meta.get("n_ctx_train"))
    return next((size - 1 for size in said if type(size) is int and size > 1), None)


def _text_of(call: Call) -> Text:
    return Text(tuple(call["ids"]), call["text"], call["start"])


def _wanted(text: Text, told: Told) -> list[float | None]:
    """From where they are wanted."""
    lacking = len(text.ids) - len(told.log_probs)
    return ([None] * lacking + told.log_probs)[text.start :]


def _put_together(text: Text, parts: Sequence[Text], outcomes: Sequence[Answer | Failure]) -> Scores:
    values = np.full(len(text.ids), np.nan, dtype=np.float32)
    for part, outcome in zip(parts, outcomes, strict=True):
        if (found := _scores(outcome)).log_probs is None:
            return found
        values[part.start : len(part.ids)] = found.log_probs
    return Scores(values, None)


def _scores(outcome: Answer | Failure) -> Scores:
    if isinstance(outcome, Failure):
        return Scores(None, f"the server did not score it: {outcome}")
    values = [np.nan if value is None else value for value in outcome["log_probs"]]
    return Scores(np.array(values, dtype=np.float32), None)


def _last_of(scores: Sequence[Scores]) -> Scores:
    """The last token's of each; a fault of one is the fault of all."""
    fault = next((one.fault for one in scores if one.log_probs is None), None)
    if fault is not None:
        return Scores(None, fault)
    return Scores(np.array([one.log_probs[-1] for one in scores if one.log_probs is not None], dtype=np.float32), None)
