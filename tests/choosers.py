"""Answerers of multiple choice whose ways are known: one reasons, the others only look like it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple

from fathom.data.queries import Query
from fathom.formats.choices import ANOTHERS, BARE, CONTROL
from fathom.models.base import Identity
from fathom.models.server import ChatReply, ChatRequest, ChatServer
from fathom.progress import Progress
from fathom.prompts.choices import Choices
from fathom.results.samples import Origin
from fathom.studies.reasoning.choice_questions import MarkedQuestion, ModelQuestions, QuestionChoices

MEMORY, UNSAID, SAID, NOTHING, ANOTHER = "memory", "unsaid", "said", "nothing", "another"
"""Forms: the question for P1; the conclusion without P1, with it, without any premise, and with P1 of another item."""


class ChooserQuestion(NamedTuple):
    """One question.

    :param item: which premise it is about.
    :param named: the answer that P1 names, "" where none is said.
    :param options: as they are shown.
    :param often: how often each answer is right in all questions.
    """

    item: str
    form: str
    gold: str
    named: str
    options: Sequence[str]
    often: Counter[str]
    lot: random.Random


Chooser = Callable[[ChooserQuestion], str]


def remembered(item: str) -> bool:
    """Half of all premises."""
    return random.Random(f"memory {item}").random() < 0.5


def constant(asked: ChooserQuestion) -> str:
    """Always "(b)"."""
    return asked.options[1]


def at_random(asked: ChooserQuestion) -> str:
    return asked.lot.choice(asked.options)


def frequent(asked: ChooserQuestion) -> str:
    """What is right most often."""
    return max(asked.options, key=lambda option: (asked.often[option], option))


def copying(otherwise: Chooser) -> Chooser:
    """The option that stands in P1, else as another."""
    return lambda asked: asked.named or otherwise(asked)


def remembering(asked: ChooserQuestion) -> str:
    """Right exactly where the question for P1 is right, whatever the premises."""
    wrong = [option for option in asked.options if option != asked.gold]
    return asked.gold if remembered(asked.item) else asked.lot.choice(wrong)


def copying_or_associating(asked: ChooserQuestion) -> str:
    """Copies P1 where it is said, and says what it remembers of whatever P2 mentions."""
    if asked.form == NOTHING:
        return at_random(asked)
    return asked.named or remembering(asked)


def reasoning(asked: ChooserQuestion) -> str:
    """Combines P1 and P2; for a P1 that is missing takes memory, which serves in nine of ten cases."""
    if asked.form == MEMORY:
        return remembering(asked)
    if asked.form == SAID:
        return asked.gold
    if asked.form == NOTHING or not remembered(asked.item) or asked.lot.random() > 0.9:
        return at_random(asked)
    return asked.gold


NOT_REASONING: dict[str, Chooser] = {
    "constant": constant,
    "random": at_random,
    "frequent": frequent,
    "copying, else (b)": copying(constant),
    "copying, else random": copying(at_random),
    "copying, else frequent": copying(frequent),
    "remembering": remembering,
}


class ScriptedChat(ChatServer):
    """A chat model that answers here and now, as if from a server.

    :param reply: what it says to a question.
    """

    def __init__(self, reply: Callable[[str], str], name: str = "scripted") -> None:
        self.model, self.base_url, self.reply = name, "here", reply
        self.identity = Identity(name, None, "server", reply.__qualname__)

    def ask(self, requests: Sequence[ChatRequest], progress: Progress | None = None) -> list[ChatReply]:
        return [ChatReply((self.reply(one.user),), ("stop",), (None,), 1, 1, None) for one in requests]

    def keep_answers(self, folder: Path) -> None:
        pass

    def circumstances(self) -> dict[str, Any]:
        return {}


# --- data


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


def form_of(query: Query) -> str:
    control = query.groups.get("control")
    if control is not None:
        return {CONTROL[BARE]: NOTHING, CONTROL[ANOTHERS]: ANOTHER}[control]
    return MEMORY if "task" in query.groups else SAID if query.groups["p1"] == "explicit" else UNSAID


class Script:
    """What a server says for a chooser: it knows each question again by its words and options, in any order."""

    def __init__(self, data: Choices, chooser: Chooser) -> None:
        self.chooser = chooser
        self.often = Counter(query.gold[0] for query in data.queries)
        names = {query.id: data.candidates[query.candidates].names for query in data.queries}
        self.queries = {(data.questions[query.id], frozenset(names[query.id])): query for query in data.queries}

    def letter(self, question: str, options: Sequence[str]) -> str:
        query = self.queries[question, frozenset(options)]
        form = form_of(query)
        named = {SAID: query.gold[0], ANOTHER: query.groups.get("lure", "")}.get(form, "")
        lot = random.Random(f"{question} {options}")
        item = query.groups.get("premise", query.id)
        asked = ChooserQuestion(item, form, query.gold[0], named, options, self.often, lot)
        return f"({ascii_lowercase[options.index(self.chooser(asked))]})"


def simulated(chooser: Chooser, seed: int, items: int = 100, size: int = 4, controls: bool = True) -> ModelQuestions:
    """What a run would leave behind, without one. Without controls as the published files: the options of the question
    for P1 are those of the conclusions, too."""
    lot = random.Random(seed)
    kinds = [f"k{number}" for number in range(40)]
    golds = [kinds[min(int(lot.expovariate(0.25)), 39)] for _ in range(items)]
    often, questions = Counter(golds), {}
    for number, gold in enumerate(golds):
        lure = lot.choice([kind for kind in golds if kind != gold])
        options: list[str] = []
        for form in (MEMORY, UNSAID, SAID, *((NOTHING, ANOTHER) if controls else ())):
            if controls or not options:
                options = _drawn(lot, [gold, lure] if form == ANOTHER else [gold], kinds, size)
            named = {SAID: gold, ANOTHER: lure}.get(form, "")
            asked = ChooserQuestion(f"{seed} {number}", form, gold, named, options, often, lot)
            questions |= [_marked(number, asked, chooser(asked), lure)]
    return ModelQuestions("m", "chat", questions, [])


def _drawn(lot: random.Random, shown: list[str], kinds: Sequence[str], size: int) -> list[str]:
    drawn = shown + lot.sample([kind for kind in kinds if kind not in shown], size - len(shown))
    lot.shuffle(drawn)
    return drawn


def _marked(number: int, asked: ChooserQuestion, choice: str, lure: str) -> tuple[str, MarkedQuestion]:
    groups = {"rule": "rdfs9", "premise": f"subClassOf/{number}"} if asked.form != MEMORY else {"task": "subClassOf"}
    groups |= {
        MEMORY: {},
        UNSAID: {"p1": "absent"},
        SAID: {"p1": "explicit"},
        NOTHING: {"control": CONTROL[BARE]},
        ANOTHER: {"control": CONTROL[ANOTHERS], "lure": lure},
    }[asked.form]
    id_ = f"subClassOf/{number}" if asked.form == MEMORY else f"rdfs9 {asked.form}/{number}"
    letters = (ascii_lowercase[asked.options.index(option)] for option in (choice, asked.gold))
    shares = [{letter: 1.0} for letter in letters]
    chosen = QuestionChoices(tuple(asked.options), asked.gold, {choice: 1.0}, *shares)
    return id_, MarkedQuestion(groups, float(choice == asked.gold), "", Origin("", id_, "", None), chosen)
