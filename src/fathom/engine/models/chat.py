"""Chat prompts of local models, by the tokenizer's chat template.

The texts are those of ``tokenizer.apply_chat_template``; tokenised as a whole, without further special tokens, they
give its ids. The template contains BOS if any, so nothing is put before it.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jinja2 import Environment, TemplateSyntaxError, meta
from transformers import PreTrainedTokenizerBase

from fathom.base.errors import BadInput
from fathom.base.reading.bounds import CHAT
from fathom.base.reading.files import shared_start
from fathom.base.reading.replies import excerpt_of

Message = dict[str, str]
CLOCK = "strftime_now"
"""The function by which templates write the day."""
_CLOCK_CALL = re.compile(rf"""{CLOCK}\(\s*(["'])(.*?)\1\s*\)""")
_USER, _REPLY, _NEXT = "fathom-user", "fathom-reply", "fathom-next"
"""Placeholders for words of the user, the assistant and the user again, to see what the template puts around them."""
_RESERVED = {"messages", "add_generation_prompt", "tools", "documents"}
"""Variables that the tokenizer fills in."""
_DRAWS = 200
"""Random orders of a template's tokens that are tried, to find one that the tokenizer splits into the same tokens."""
_NO_SYSTEM = "drop --system, or put it into the questions"


class ChatTemplate:
    """The tokenizer's own template.

    :param system: the system message, "" for none.
    :param arguments: "NAME=VALUE" for variables of the template.
    :raises BadInput: there is no template, it fails, writes too much, drops a message or has no such variable.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, system: str = "", arguments: Sequence[str] = ()) -> None:
        self._tokenizer, self._system = tokenizer, system
        try:
            source = tokenizer.get_chat_template()
        except ValueError as error:  # none, or several without a default
            raise BadInput(
                "--chat: the tokenizer has no chat template (chat_template in tokenizer_config.json, or "
                "chat_template.jinja next to it): drop --chat, or give the model's chat version"
            ) from error
        self._variables = dict(_variable(text, source) for text in arguments)
        self._source = _dated(source, self._variables.pop(CLOCK, None), tokenizer)
        self.digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        if len(self._start("question")) > CHAT.most + len(system):
            raise BadInput(f"--chat: {CHAT.fault()}")
        self.turn("question")

    def turn(self, user: str, examples: Sequence[tuple[str, str]] = ()) -> str:
        """Return the text up to the start of the assistant's reply.

        :param user: the user's turn; "" for none.
        :param examples: earlier turns of user and assistant.
        """
        words = [word for example in examples for word in example]
        return self._shown(self._start(user, examples), [*words, user])

    def before_reply(self, user: str) -> str:
        """Return the text before the assistant's words in a finished conversation.

        It differs from :meth:`turn` where the template writes more, such as white space or an empty thought.
        """
        before, found, _ = self._finished(user).partition(_REPLY)
        return self._shown(before if found else self._start(user), [user])

    def frame(self) -> str:
        """Return the finished conversation with placeholders for the user's and the assistant's words."""
        return self._finished(_USER)

    def built_in_system(self) -> str:
        """Return what the template itself writes before the first turn; "" for nothing, or with a system message."""
        if self._system:
            return ""
        before, found, _ = self.frame().partition(_USER)
        turns = [("user", _USER), ("assistant", _REPLY), ("user", _NEXT)]
        between = self._rendered(_messages(turns)).partition(_REPLY)[2].partition(_NEXT)[0]
        opening = shared_start([before[::-1], between[::-1]])[::-1]  # of the user's turn
        return before.removesuffix(opening).removeprefix(self._tokenizer.bos_token or "").strip() if found else ""

    def _shown(self, text: str, words: Sequence[str]) -> str:
        """Return the chat as the model sees it. :param words: of user and assistant, in order."""
        return text

    def _start(self, user: str, examples: Sequence[tuple[str, str]] = ()) -> str:
        messages = self._asked(user, examples)
        text = self._rendered(messages, add_generation_prompt=True)
        for message in messages:
            if message["content"].strip() not in text:
                raise BadInput(f"--chat: the chat template drops the {message['role']}'s message: {_NO_SYSTEM}")
        return text

    def _finished(self, user: str) -> str:
        return self._rendered([*self._asked(user), *_messages([("assistant", _REPLY)])])

    def _asked(self, user: str, examples: Sequence[tuple[str, str]] = ()) -> list[Message]:
        turns = [turn for question, answer in examples for turn in (("user", question), ("assistant", answer))]
        return _messages([("system", self._system), *turns, ("user", user)])

    def _rendered(self, messages: list[Message], **options: Any) -> str:
        try:
            text = self._tokenizer.apply_chat_template(
                messages, chat_template=self._source, tokenize=False, **options, **self._variables
            )
        except Exception as error:  # any error of a template in jinja or Python
            reason = excerpt_of(str(error)) or type(error).__name__
            hint = f" (some templates know no system message: {_NO_SYSTEM})" if self._system else ""
            raise BadInput(f"--chat: the tokenizer's chat template fails: {reason}{hint}") from error
        return str(text)


def bos_marks_turns(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Return whether the BOS token begins each turn of a chat, and not texts alone."""
    if tokenizer.bos_token in (None, tokenizer.eos_token) or tokenizer.chat_template is None:
        return False
    try:
        return ChatTemplate(tokenizer).frame().count(str(tokenizer.bos_token)) > 1
    except BadInput:  # the template fails, which concerns chats alone
        return False


def _messages(turns: Sequence[tuple[str, str]]) -> list[Message]:
    return [{"role": role, "content": content} for role, content in turns if content]


def _variable(text: str, source: str) -> tuple[str, Any]:
    """Return a variable's name and value: JSON, or else a text. :raises BadInput: the template does not read it."""
    name, _, value = text.partition("=")
    if name in _RESERVED:
        raise BadInput(f"--chat-arguments {text}: the tokenizer itself gives the template its {name}: remove it")
    if not _reads(source, name):
        raise BadInput(f"--chat-arguments {text}: the chat template reads no variable {name}: remove it")
    try:
        return name, json.loads(value.lower() if value in ("True", "False") else value)
    except ValueError:
        return name, value


def _reads(source: str, name: str) -> bool:
    """Return whether a template looks a variable up."""
    try:
        parsed = Environment(extensions=["jinja2.ext.loopcontrols"]).parse(source)
    except TemplateSyntaxError:  # a tag of transformers' own
        return re.search(rf"\b{name}\b", source) is not None
    return name in meta.find_undeclared_variables(parsed)


def _dated(source: str, day: str | None, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return a template that writes one time in all prompts: *day*, or that of now."""
    if day is None:
        return _CLOCK_CALL.sub(lambda call: json.dumps(_now(call[0], tokenizer)), source)
    try:
        fixed = datetime.fromisoformat(str(day))
    except ValueError as error:
        raise BadInput(f"--chat-arguments {CLOCK}={day}: expected a day such as 2026-07-26") from error
    dated = _CLOCK_CALL.sub(lambda call: json.dumps(fixed.strftime(call[2])), source)
    if f"{CLOCK}(" in dated:
        raise BadInput(f"--chat-arguments {CLOCK}={day}: the chat template computes the form of its day: remove it")
    return dated


def _now(call: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """Return what a template's call of the clock writes now."""
    message = [{"role": "user", "content": "x"}]
    return str(tokenizer.apply_chat_template(message, chat_template="{{ " + call + " }}", tokenize=False))


class ShuffledChat(ChatTemplate):
    """The control of a chat template: the same tokens, but no template.

    The user's words remain unmodified; the template's tokens around them, including the system message, precede them in
    random order, the same for all questions. A leading BOS stays first and the last token last, so that a reply begins
    as in the chat.

    :param seed: of the order.
    :raises BadInput: as :class:`ChatTemplate`; the template has too few tokens for another order.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, system: str = "", arguments: Sequence[str] = (), seed: int = 0
    ) -> None:
        self._seed = seed
        self._orders: dict[tuple[str, str], tuple[str, str]] = {}
        super().__init__(tokenizer, system, arguments)
        self.digest = hashlib.sha256(f"{self.digest}|shuffled|{seed}".encode()).hexdigest()[:16]

    def _shown(self, text: str, words: Sequence[str]) -> str:
        said = [stripped for word in words if (stripped := word.strip())]
        before, after = "", text
        for word in said[:-1]:
            template, _, after = after.partition(word)
            before += template
        # The last words may also occur in the system message.
        template, _, after = after.rpartition(said[-1]) if said else (text, "", "")
        before += template
        if (before, after) not in self._orders:
            self._orders[before, after] = self._shuffled(before, after)
        first, last = self._orders[before, after]
        return first + "\n".join(said) + last

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
