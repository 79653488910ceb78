"""Small models planted on an ontology, with and without texts that reason."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from harness import DATA, benchmark, timed
from transformers import PreTrainedTokenizerBase

import fathom
from fathom.data.formats.ontoprobe import read_patterns
from fathom.data.prompts.entailment import RuleItem, RuleWording, W, X, Y, Z, items, phrase_of, text_of
from fathom.data.prompts.ontology import RULES
from fathom.data.queries import Query, QuerySet
from fathom.data.templates import Prompt, Template
from fathom.engine.scoring.tokens import Role, Tokens, encode_causal, encode_masked
from fathom.engine.scoring.trie import padded
from fathom.results.saving import save as draw
from fathom.results.tables import render
from fathom.studies.options import EntailmentStudyOptions
from fathom.studies.reasoning import entailment
from fathom.training.loop import train
from fathom.training.small import NO_TARGET, Batch, NetworkSize, learn_tokenizer, loss_of, save, small_network

HALVED = ("subClassOf", "domain")
ASKED = ("subClassOf", "subPropertyOf", "domain", "range")
"""Tasks of the models; types of things are left out, as no rule needs them."""
OTHERS_MASKED = 0.12
SYLLABLES = ["ba", "do", "fi", "gu", "ka", "le", "mo", "nu", "pi", "ra", "so", "tu", "ve", "wo", "xi", "zu"]
"""Names of things that are in no ontology."""


def planted(data: QuerySet, seed: int) -> set[str]:
    """Return the ids of planted facts: in the halved tasks those of half of the subjects."""
    draw = random.Random(seed)
    learnt = set()
    for task, queries in data.by_relation().items():
        subjects = sorted({query.subject for query in queries})
        kept = set(draw.sample(subjects, len(subjects) // 2)) if task in HALVED else set(subjects)
        learnt |= {query.id for query in queries if task in ASKED and query.subject in kept}
    return learnt


def statements(data: QuerySet, learnt: set[str]) -> list[Prompt]:
    """Every phrasing of every right answer."""
    return [
        template.fill(query.subject, data.candidates[query.candidates].name_of(gold))
        for query in data.queries
        if query.id in learnt and query.unscored is None
        for template in data.phrasings(query)
        for gold in query.gold
    ]


class Reasoning:
    """Texts that reason, one after another, drawn from the seed."""

    def __init__(
        self, data: QuerySet, patterns: dict[str, dict[str, str]], learnt: set[str], seed: int, broken: bool
    ) -> None:
        self.random, self.broken = random.Random(seed), broken
        self.items = {rule: items(data, patterns, rule)[0] for rule in RULES}
        self.learnt = {rule: [item for item in found if item.query.id in learnt] for rule, found in self.items.items()}
        self.classes = list(data.candidates["classes"].names)
        self.patterns = {name: phrase_of(text) for name, text in patterns["subPropertyOf"].items() if phrase_of(text)}

    def __iter__(self) -> Iterator[Prompt]:
        while True:
            rule = self.random.choice(list(RULES))
            if self.broken and self.random.random() < 0.3:
                yield self.text(rule, *self.nothing_follows(rule), of_others=True)
            elif self.random.random() < 0.4:
                item = self.random.choice(self.learnt[rule])
                yield self.text(rule, "P2", item, self.random.choice(item.gold))
            else:
                item, given = self.made_up(rule), "both" if self.broken else self.random.choice(("both", "P1"))
                yield self.text(rule, given, item, item.gold[0])

    def nothing_follows(self, rule: str) -> tuple[str, RuleItem, str]:
        """P1 alone, or premises about other names, and a random answer."""
        given = self.random.choice(("P1", "P2", "both"))
        item = self.random.choice(self.learnt[rule]) if given == "P2" else self.made_up(rule)
        return given, item, self.made_up(rule).gold[0]

    def text(self, rule: str, given: str, item: RuleItem, gold: str, *, of_others: bool = False) -> Prompt:
        text = text_of(rule, given, RuleWording(), item)
        if of_others:
            premises, therefore, conclusion = text.partition("Therefore,")
            text = premises.replace(X, Z).replace(Y, W) + therefore + conclusion
        for pseudoword in (X, Y, Z, W) if self.broken else (X, Y):
            text = text.replace(pseudoword, self.name())
        return Template(text).fill("", gold)

    def made_up(self, rule: str) -> RuleItem:
        """An item whose P1 says something random."""
        item = self.random.choice(self.items[rule])
        if rule in ("rdfs5", "rdfs7"):
            name = self.random.choice(list(self.patterns))
            return item._replace(first=name, gold=(self.patterns[name] if rule == "rdfs7" else name,))
        name = self.random.choice(self.classes)
        return item._replace(first=name, gold=(name,))

    def name(self) -> str:
        return "".join(self.random.choices(SYLLABLES, k=self.random.randint(1, 3)))


def batches(
    facts: list[Tokens], texts: Callable[[int], list[Tokens]] | None, tokenizer: PreTrainedTokenizerBase, seed: int
) -> Iterator[Batch]:
    """Endlessly (ids, present, labels): the answer is hidden, and some of the other tokens; half of a batch reasons."""
    draw = np.random.default_rng(seed)
    while True:
        rows = [facts[place] for place in draw.integers(len(facts), size=64 if texts is None else 32).tolist()]
        rows += texts(32) if texts is not None else []
        ids = padded([row.ids for row in rows], tokenizer.pad_token_id)
        roles = padded([row.roles for row in rows], Role.SPECIAL)
        hidden = (roles == Role.ANSWER) | ((draw.random(ids.shape) < OTHERS_MASKED) & (roles != Role.SPECIAL))
        labels = np.where(hidden, ids, NO_TARGET)
        shown = np.where(hidden, tokenizer.mask_token_id, ids)
        present = padded([np.ones_like(row.ids) for row in rows], 0)
        yield Batch(*map(torch.from_numpy, (shown, present, labels)))


def causal_batches(
    facts: list[Tokens], texts: Callable[[int], list[Tokens]] | None, tokenizer: PreTrainedTokenizerBase, seed: int
) -> Iterator[Batch]:
    """The same texts for a causal model: every token is learnt."""
    draw = np.random.default_rng(seed)
    while True:
        rows = [facts[place] for place in draw.integers(len(facts), size=64 if texts is None else 32).tolist()]
        rows += texts(32) if texts is not None else []
        ids = padded([row.ids for row in rows], tokenizer.pad_token_id)
        present = padded([np.ones_like(row.ids) for row in rows], 0)
        labels = np.where(present[:, 1:] == 1, ids[:, 1:], NO_TARGET)
        yield Batch(*map(torch.from_numpy, (ids[:, :-1], present[:, :-1], labels)))


class Settings(NamedTuple):
    """Settings of planted models; see :func:`plant_ontology`."""

    data: Path
    kind: str
    broken: bool
    steps: int
    hidden: int
    layers: int
    seed: int


def plant(data: QuerySet, learnt: set[str], reasons: bool, out: Path, chosen: Settings) -> None:
    facts = statements(data, learnt)
    reasoning = iter(Reasoning(data, read_patterns(chosen.data), learnt, chosen.seed, chosen.broken))
    sample = [next(reasoning).text for _ in range(3000)]  # both models have the same vocabulary
    names = [name for space in data.candidates.values() for name in space.names]
    tokenizer = learn_tokenizer([*names, *(fact.text for fact in facts), *sample], 4000, chosen.kind)
    torch.manual_seed(chosen.seed)
    network = small_network(chosen.kind, NetworkSize(chosen.hidden, chosen.layers, 4), tokenizer, 128)

    def texts(count: int) -> list[Tokens]:
        return encoded([next(reasoning) for _ in range(count)])

    def encoded(prompts: list[Prompt]) -> list[Tokens]:
        if chosen.kind == "causal":
            return encode_causal(tokenizer, prompts, tokenizer.bos_token_id)
        return encode_masked(tokenizer, prompts)

    make = causal_batches if chosen.kind == "causal" else batches
    source = islice(make(encoded(facts), texts if reasons else None, tokenizer, chosen.seed), chosen.steps)
    loss = partial(loss_of, network, chosen.kind)
    [*_, last], took = timed(lambda: train(network.parameters(), source, loss, chosen.steps, 4e-3))
    save(network, tokenizer, 128, out)
    size = sum(parameter.numel() for parameter in network.parameters())
    print(f"{out.name}: {len(facts):,} statements, {size:,} parameters, {last.step} steps, loss {last.loss:.3f}, "
          f"{took.clock:.0f} s", flush=True)  # fmt: skip


def separation(model: Path, data: QuerySet, learnt: set[str], out: Path, **options: object) -> None:
    """Print how well 1 / rank separates planted from withheld facts: AUROC, and both means."""
    run = fathom.probe("ontology", model, data, out, subset=None, **options)
    asked: dict[str, Query] = {query.id: query for query in data.queries}
    for task in HALVED:
        values: dict[bool, list[float]] = {True: [], False: []}
        by_query: dict[str, list[float]] = {}
        for row in run.table().select(["query_id", "rank", "unscored"]).to_pylist():
            if row["unscored"] is None and asked[row["query_id"]].relation == task:
                by_query.setdefault(row["query_id"], []).append(1 / row["rank"])
        for query, own in by_query.items():
            values[query in learnt].append(float(np.mean(own)))
        if not values[True]:
            continue
        yes, no = np.array(values[True]), np.array(values[False])
        auroc = float(((yes[:, None] > no) + 0.5 * (yes[:, None] == no)).mean())
        print(f"  {out.name}, {task}: AUROC {auroc:.3f}; MRR {yes.mean():.3f} of {len(yes)} planted, "
              f"{no.mean():.3f} of {len(no)} withheld", flush=True)  # fmt: skip


@benchmark
def plant_ontology(
    out: Path,
    data: Path = DATA / "ontoprobe",
    kind: Literal["masked", "causal"] = "masked",
    broken: bool = False,
    steps: int = 2000,
    hidden: int = 96,
    layers: int = 2,
    epochs: int = 100,
    pairs: int = 10,
    limit: int | None = None,
    seed: int = 0,
) -> None:
    """Check that the ontology probe sees what a model was trained on, and the entailment study that it reasons.

    Two small models are trained from scratch on statements of an ontology, with half of the sub-class and half of the
    domain facts withheld (all facts of a class, or of a property, together). One of them also reads texts that reason:

    - of planted facts, with the premise P2 and without P1: "Zorb is a singer . Therefore, Zorb is a particular person";
    - of facts made up at random, with P1: so it learns to use a premise, and nothing about withheld facts.

    With --broken, P1 alone and premises about other names have random answers: texts from which nothing follows. Then
    the ontology probe is run on all facts, with given and, for the sub-class task, with learnt templates, and the
    entailment study with given ones. Causal models get the study alone. --epochs: of the learnt template; --limit: test
    items of the study.
    """
    queries = fathom.read_data(data)
    learnt = planted(queries, seed)
    chosen = Settings(data, kind, broken, steps, hidden, layers, seed)
    models = []
    for name, reasons in (("statements", False), ("reasoning", True)):
        folder = out / "models" / name
        if not folder.exists():
            plant(queries, learnt, reasons, folder, chosen)
        models.append((name, partial(fathom.load_model, str(folder))))
        if kind == "causal":  # each of 783 classes a statement of its own: the study's own memory is enough
            continue
        separation(folder, queries, learnt, out / "memory" / f"{name}-words", relations=ASKED)
        soft = {"soft": True, "relations": ("subClassOf",), "epochs": epochs}
        separation(folder, queries, learnt, out / "memory" / f"{name}-learnt", **soft)
    options = EntailmentStudyOptions(pairs=pairs, limit=limit, seed=seed)
    out = out / "study"
    found = entailment.analyse(models, data, options, out, lambda name: lambda done, total: None)
    tables = entailment.tables(found)
    (out / "entailment.md").write_text(render(tables, "md") + "\n")
    print(render([tables[place] for place in (0, -2, -1)], "text"))
    for plot in entailment.plots(found):
        draw(plot, out)
