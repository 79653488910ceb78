"""Chat models at hand: what a tokenizer's chat template puts around a question.

The texts are those of ``tokenizer.apply_chat_template``; tokenised as a whole, without further special tokens, they are
its ids. The template says what stands first, so nothing (such as BOS) is put before it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from transformers import PreTrainedTokenizerBase

from fathom.errors import BadInput
from fathom.reading.replies import words_of

_REPLY = "fathom-reply"
"""Stands for what the assistant says, to see what stands before it."""


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
        messages = self._messages(user)
        text = self._rendered(messages, add_generation_prompt=True)
        for message in messages:
            if message["content"].strip() not in text:
                raise BadInput(f"--chat: the chat template leaves the {message['role']}'s message out: {_NO_SYSTEM}")
        return text

    def before_reply(self, user: str) -> str:
        """:meth:`turn`, with the white space that the template puts before an assistant's words."""
        start = self.turn(user)
        whole = self._rendered([*self._messages(user), {"role": "assistant", "content": _REPLY}])
        before = whole.partition(_REPLY)[0]
        return before if before.startswith(start) and not before[len(start) :].strip() else start

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


_NO_SYSTEM = "leave --system out, or put it into the questions"


def _hint(system: str) -> str:
    return f" (some templates know no system message: {_NO_SYSTEM})" if system else ""
