"""The entailment study asked of chat models, which take words alone: the same items in multiple choice.

Pseudowords become nonce words, and each text a question of its own, 'What completes the statement "Singer is an
artist . Blavek is a singer . Therefore, Blavek is a particular ___ ."?', with options and an order that are its own, so
that no liking for a letter or an option looks like memory. The choice probe asks it, and memory by the questions that
it has for the memorising tasks.
"""

from __future__ import annotations

from collections.abc import Collection

from fathom.data.queries import QuerySet
from fathom.data.selection.filters import select
from fathom.data.selection.options import Selection
from fathom.models.base import Model
from fathom.models.server import ChatServer
from fathom.probes.choice_options import ChoiceOptions
from fathom.prompts.choices import OPTIONS, Choices, choices
from fathom.prompts.nonce import NonceWords, words_of
from fathom.studies.reasoning.plan import EntailmentPlan

Asked = tuple[str, Model | ChatServer, QuerySet, ChoiceOptions]
"""The first arguments of a run."""


class ChatQuestions:
    """What one chat model is asked.

    :param plan: of all models.
    """

    def __init__(self, model: Model | ChatServer, plan: EntailmentPlan) -> None:
        self.model, self.plan = model, plan
        words = words_of(plan.data.whole or plan.data, plan.patterns)
        self.nonce = NonceWords(words, plan.rules, plan.options.pairs, plan.options.seed)

    def memory(self, ids: Collection[str]) -> Asked:
        """P1 of these queries of the memorising tasks."""
        return self._asked(select(self.plan.data, Selection(ids=frozenset(ids))).data)

    def about(self, queries: QuerySet) -> Asked:
        """Queries about pseudowords."""
        return self._asked(self.nonce.put_in(queries))

    def _asked(self, queries: QuerySet) -> Asked:
        chat = self.plan.chat
        own: Choices = choices(queries, chat.options or OPTIONS, chat.seed, self.plan.hierarchy.right_too)
        return "choice", self.model, own, chat.model_copy(update={"options": None})
