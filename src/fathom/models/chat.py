"""Chat models at hand: what a tokenizer's chat template puts around a question.

The texts are those of ``tokenizer.apply_chat_template``; tokenised as a whole, without further special tokens, they are
its ids. The template says what stands first, so nothing (such as BOS) is put before it.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from fathom.errors import BadInput
from fathom.reading.replies import words_of

_REPLY = "fathom-reply"
"""Stands for what the assistant says, to see what stands before it."""
_DRAWS = 200
"""So many orders of a template's tokens are tried for one in which a tokenizer finds the same tokens again."""


class ChatTemplate:
    """The tokenizer's own template.

    :param system: the system message, "" for none.
    :raises BadInput: there is no template, it fails, or it leaves a message out.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, system: str = "") -> None:
        self._tokenizer, self._system = tokenizer, system
        try:
            text = tokenizer.get_chat_template()
        except ValueError as error:  # none, or several of which none is the usual one
            raise BadInput(
                "--chat: the tokenizer has no chat template (chat_template in tokenizer_config.json, or "
                "chat_template.jinja beside it): leave --chat out, or give the model's chat version"
            ) from error
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.turn("question")

    def turn(self, user: str) -> str:
        """The text up to the assistant's start, where it would begin to write.

        :param user: what the user says; "" for no such turn.
        """
        return self._shown(self._start(user), user)

    def before_reply(self, user: str) -> str:
        """:meth:`turn`, with the white space that the template puts before an assistant's words."""
        start = self._start(user)
        whole = self._rendered([*self._messages(user), {"role": "assistant", "content": _REPLY}])
        before = whole.partition(_REPLY)[0]
        return self._shown(before if before.startswith(start) and not before[len(start) :].strip() else start, user)

    def _shown(self, text: str, user: str) -> str:
        """What the model is shown of the chat."""
        return text

    def _start(self, user: str) -> str:
        messages = self._messages(user)
        text = self._rendered(messages, add_generation_prompt=True)
        for message in messages:
            if message["content"].strip() not in text:
                raise BadInput(f"--chat: the chat template leaves the {message['role']}'s message out: {_NO_SYSTEM}")
        return text

    def _messages(self, user: str) -> list[dict[str, str]]:
        said = (("system", self._system), ("user", user))
        return [{"role": role, "content": content} for role, content in said if content]

    def _rendered(self, messages: list[dict[str, str]], **options: Any) -> str:
        try:
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, **options)
        except Exception as error:  # whatever a template makes jinja and Python raise
            said = words_of(str(error)) or type(error).__name__
            raise BadInput(f"--chat: the tokenizer's chat template fails: {said}{_hint(self._system)}") from error
        return str(text)


class ShuffledChat(ChatTemplate):
    """The control of a chat template: what the user says stays as it is, and what the template puts around it (the
    system's message, too) stands in front in random order. As many tokens and the same ones, but no template.

    A BOS that stands first stays there, and the last token stays last, so that what is said behind begins as it does in
    the chat. The order is the same for all questions.

    :param seed: draws it.
    :raises BadInput: as :class:`ChatTemplate`; the template has too few tokens to be put into another order.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, system: str = "", seed: int = 0) -> None:
        self._seed = seed
        self._orders: dict[tuple[str, str], tuple[str, str]] = {}
        super().__init__(tokenizer, system)
        self.digest = hashlib.sha256(f"{self.digest}|shuffled|{seed}".encode()).hexdigest()[:16]

    def _shown(self, text: str, user: str) -> str:
        said = user.strip()
        before, _, after = text.rpartition(said) if said else (text, "", "")
        if (before, after) not in self._orders:
            self._orders[before, after] = self._shuffled(before, after)
        first, last = self._orders[before, after]
        return first + said + last

    def _shuffled(self, before: str, after: str) -> tuple[str, str]:
        """What stands in front of the user's words, and behind them."""
        pieces = [*self._pieces(before), *self._pieces(after)]
        bos = self._tokenizer.bos_token
        first = pieces.pop(0) if pieces and pieces[0] == bos else ""
        last = pieces.pop() if pieces else ""
        wanted = self._tokens(before, after)

        def drawn(number: int) -> str:
            return first + "".join(random.Random(f"{self._seed}|{number}").sample(pieces, len(pieces)))

        def others(text: str) -> int:
            found = self._tokens(text, last)
            return ((found - wanted) + (wanted - found)).total()

        whole = first + "".join(pieces)
        orders = [text for text in map(drawn, range(_DRAWS)) if text != whole]
        if not orders:
            raise BadInput("--shuffle-chat: the chat template has too few tokens to be put into another order")
        return min(orders, key=others), last

    def _tokens(self, before: str, after: str) -> Counter[int]:
        return Counter(self._tokenizer(f"{before}{_REPLY}{after}", add_special_tokens=False)["input_ids"])

    def _pieces(self, text: str) -> Sequence[str]:
        """The text cut where tokens begin, nothing of it lost."""
        offsets = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        # Some tokenizers leave the space in front of a word out of its offsets.
        starts = sorted({0, *(len(text[:start].rstrip(" ")) for start, end in offsets if end > start)})
        return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True) if end > start]


_NO_SYSTEM = "leave --system out, or put it into the questions"


def _hint(system: str) -> str:
    return f" (some templates know no system message: {_NO_SYSTEM})" if system else ""
