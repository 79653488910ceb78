"""Chat prompts of local models, by the tokenizer's chat template.

The texts are those of ``tokenizer.apply_chat_template``; tokenised as a whole, without further special tokens, they
give its ids. The template contains BOS if any, so nothing is put before it.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformers import PreTrainedTokenizerBase

from fathom.errors import BadInput
from fathom.reading.bounds import CHAT
from fathom.reading.replies import excerpt_of

_REPLY = "fathom-reply"
"""A placeholder for the assistant's words, to see what the template puts before them."""
_DRAWS = 200
"""Random orders of a template's tokens that are tried, to find one that the tokenizer splits into the same tokens."""
_NO_SYSTEM = "drop --system, or put it into the questions"


class ChatTemplate:
    """The tokenizer's own template.

    :param system: the system message, "" for none.
    :raises BadInput: there is no template, it fails, writes too much, or drops a message.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, system: str = "") -> None:
        self._tokenizer, self._system = tokenizer, system
        try:
            text = tokenizer.get_chat_template()
        except ValueError as error:  # none, or several without a default
            raise BadInput(
                "--chat: the tokenizer has no chat template (chat_template in tokenizer_config.json, or "
                "chat_template.jinja next to it): drop --chat, or give the model's chat version"
            ) from error
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        if len(self._start("question")) > CHAT.most + len(system):
            raise BadInput(f"--chat: {CHAT.fault()}")
        self.turn("question")

    def turn(self, user: str) -> str:
        """Return the text up to the start of the assistant's reply. :param user: the user's turn; "" for none."""
        return self._shown(self._start(user), user)

    def before_reply(self, user: str) -> str:
        """Return :meth:`turn`, with the white space that the template puts before an assistant's words."""
        start = self._start(user)
        whole = self._rendered([*self._messages(user), {"role": "assistant", "content": _REPLY}])
        before = whole.partition(_REPLY)[0]
        return self._shown(before if before.startswith(start) and not before[len(start) :].strip() else start, user)

    def _shown(self, text: str, user: str) -> str:
        """Return the chat as the model sees it."""
        return text

    def _start(self, user: str) -> str:
        messages = self._messages(user)
        text = self._rendered(messages, add_generation_prompt=True)
        for message in messages:
            if message["content"].strip() not in text:
                raise BadInput(f"--chat: the chat template drops the {message['role']}'s message: {_NO_SYSTEM}")
        return text

    def _messages(self, user: str) -> list[dict[str, str]]:
        turns = (("system", self._system), ("user", user))
        return [{"role": role, "content": content} for role, content in turns if content]

    def _rendered(self, messages: list[dict[str, str]], **options: Any) -> str:
        try:
            text = self._tokenizer.apply_chat_template(messages, tokenize=False, **options)
        except Exception as error:  # any error of a template in jinja or Python
            reason = excerpt_of(str(error)) or type(error).__name__
            hint = f" (some templates know no system message: {_NO_SYSTEM})" if self._system else ""
            raise BadInput(f"--chat: the tokenizer's chat template fails: {reason}{hint}") from error
        return str(text)


class ShuffledChat(ChatTemplate):
    """The control of a chat template: the same tokens, but no template.

    The user's words remain unmodified; the template's tokens around them, including the system message, precede them in
    random order, the same for all questions. A leading BOS stays first and the last token last, so that a reply begins
    as in the chat.

    :param seed: of the order.
    :raises BadInput: as :class:`ChatTemplate`; the template has too few tokens for another order.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, system: str = "", seed: int = 0) -> None:
        self._seed = seed
        self._orders: dict[tuple[str, str], tuple[str, str]] = {}
        super().__init__(tokenizer, system)
        self.digest = hashlib.sha256(f"{self.digest}|shuffled|{seed}".encode()).hexdigest()[:16]

    def _shown(self, text: str, user: str) -> str:
        words = user.strip()
        before, _, after = text.rpartition(words) if words else (text, "", "")
        if (before, after) not in self._orders:
            self._orders[before, after] = self._shuffled(before, after)
        first, last = self._orders[before, after]
        return first + words + last

    def _shuffled(self, before: str, after: str) -> tuple[str, str]:
        """Return the texts before and after the user's words."""
        pieces = [*self._pieces(before), *self._pieces(after)]
        bos = self._tokenizer.bos_token
        first = pieces.pop(0) if pieces and pieces[0] == bos else ""
        last = pieces.pop() if pieces else ""
        wanted = self._tokens(before, after)

        def drawn(number: int) -> str:
            return first + "".join(random.Random(f"{self._seed}|{number}").sample(pieces, len(pieces)))

        def others(text: str) -> int:
            tokens = self._tokens(text, last)
            return ((tokens - wanted) + (wanted - tokens)).total()

        whole = first + "".join(pieces)
        orders = [text for text in map(drawn, range(_DRAWS)) if text != whole]
        if not orders:
            raise BadInput("--shuffle-chat: the chat template has too few tokens to be put into another order")
        return min(orders, key=others), last

    def _tokens(self, before: str, after: str) -> Counter[int]:
        return Counter(self._tokenizer(f"{before}{_REPLY}{after}", add_special_tokens=False)["input_ids"])

    def _pieces(self, text: str) -> Sequence[str]:
        """Cut the text where tokens begin, without loss."""
        offsets = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        # Some tokenizers exclude the space before a word from its offsets.
        starts = sorted({0, *(len(text[:start].rstrip(" ")) for start, end in offsets if end > start)})
        return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True) if end > start]
