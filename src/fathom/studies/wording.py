"""Does a chat template change what a model knows, and is it the template that does it?

Runs of one model and data set: in plain wording, through the chat template (``--chat``), and its control, behind the
template's own tokens in random order (``--chat --shuffle-chat``). What the template does beyond the plain wording, and
beyond its shuffled tokens, is the template's; what shuffled tokens do as well, any long beginning may do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fathom.errors import BadInput, all_of, refuse
from fathom.metrics.significance import LEVEL
from fathom.results import numbers
from fathom.results.compared import SMALLEST, Cells, cells_of, holm_of, outcomes_to_compare
from fathom.results.numbers import Number, combined
from fathom.results.outcomes import CHAT, PLAIN, SHUFFLED, Outcome
from fathom.results.rows import grouped
from fathom.results.samples import Sample
from fathom.results.sides import common_facts, difference
from fathom.results.tables import Cell, Table
from fathom.store.folder import RunFolder

WORDINGS = (PLAIN, CHAT, SHUFFLED)
CONTRASTS = ((CHAT, PLAIN), (SHUFFLED, PLAIN), (CHAT, SHUFFLED))
NOT_SHOWN = "no difference shown"
NO_CONTROL = "no control: ask also with --chat --shuffle-chat"
NOT_THE_TEMPLATE = "not shown to be the template: the chat is not shown to lie beyond its shuffled tokens"
HELPS, HARMS = "the template helps", "the template harms"


class Contrast(NamedTuple):
    """Two wordings on the same facts.

    :param values: mean accuracy of each. :param difference: first − second, paired.
    :param adjusted: p value by Holm among the model's contrasts, or among its relations.
    :param cells: facts that both, one or neither has right. :param alike: share of facts right in both or in neither.
    """

    first: str
    second: str
    values: tuple[float, float]
    difference: Number
    cells: Cells
    alike: Number
    adjusted: float | None = None

    @property
    def sign(self) -> int:
        """+1 or −1 where a difference is shown, else 0."""
        return int(np.sign(self.difference.value)) if self.adjusted is not None and self.adjusted < LEVEL else 0


class Wordings(NamedTuple):
    """One model, data set and probe.

    :param facts: that all its runs scored. :param left_out: that not all did.
    :param accuracies: of each wording over these facts.
    :param contrasts: of :data:`CONTRASTS` those that there are.
    :param relations: of each chat − plain, and how many facts it has.
    """

    model: str
    data: str
    probe: str
    scoring: str
    facts: int
    left_out: int
    accuracies: Mapping[str, Number]
    contrasts: list[Contrast]
    relations: Mapping[str, Contrast]

    @property
    def verdict(self) -> str:
        """What may be said of the template."""
        sign = self.contrasts[0].sign
        if not sign:
            return NOT_SHOWN
        if SHUFFLED not in self.accuracies:
            return NO_CONTROL
        if self.contrasts[-1].sign != sign:
            return NOT_THE_TEMPLATE
        return HELPS if sign > 0 else HARMS


def ask(runs: Sequence[RunFolder], scoring: Sequence[str] = (), cluster: str = "") -> list[Wordings]:
    """Of each model, data set and probe with a run in plain wording and one through the chat template.

    :raises BadInput: one of the two is missing, two runs of one wording, a control that was not asked as the chat was,
        no fact in common, or other candidates.
    """
    outcomes = outcomes_to_compare(runs, scoring, cluster, lambda outcome: outcome)
    alike = grouped(((one.model, one.data, one.probe, one.scoring), one) for one in outcomes)
    return all_of(*(partial(_compared, own) for own in alike.values()))


def _compared(outcomes: Sequence[Outcome]) -> Wordings:
    sides = _by_wording(outcomes)
    facts = common_facts(list(sides.values()))
    contrasts = [_contrast(sides[one], sides[other], facts) for one, other in CONTRASTS if {one, other} <= sides.keys()]
    of_relation = grouped(zip(sides[PLAIN].relations_of(facts), facts, strict=True))
    relations = {name: _contrast(sides[CHAT], sides[PLAIN], own) for name, own in of_relation.items()}
    plain = sides[PLAIN]
    return Wordings(
        plain.model,
        plain.data,
        plain.probe,
        plain.scoring,
        len(facts),
        len({fact for side in sides.values() for fact in side.facts}) - len(facts),
        {name: side.mean("accuracy", side.hits(1), facts, _sample(side, facts)) for name, side in sides.items()},
        _adjusted(contrasts),
        dict(zip(relations, _adjusted(list(relations.values())), strict=True)),
    )


def _by_wording(outcomes: Sequence[Outcome]) -> dict[str, Outcome]:
    """In the order of :data:`WORDINGS`. :raises BadInput: see :func:`ask`."""
    of_wording = grouped((one.wording, one) for one in outcomes)
    first = outcomes[0]
    about = f"{first.model} on {first.data} by {first.probe}"
    refuse(
        f"{' and '.join(one.path for one in own)} are both of {about}, {name}: give one of them, or compare the two "
        "with fathom compare"
        for name, own in of_wording.items()
        if len(own) > 1
    )
    refuse(
        f"{about} has no run {how}: this study compares a model's plain wording with its chat template (there is "
        f"{', '.join(f'{own[0].path}: {name}' for name, own in of_wording.items())})"
        for name, how in ((PLAIN, "in plain wording"), (CHAT, "with --chat"))
        if name not in of_wording
    )
    found = {name: of_wording[name][0] for name in WORDINGS if name in of_wording}
    if SHUFFLED in found:
        _check_control(found[CHAT], found[SHUFFLED])
    return found


def _check_control(chat: Outcome, control: Outcome) -> None:
    """:raises BadInput: it was not asked as the chat was."""
    one, other = (side.rows.identity.get("options", {}) for side in (chat, control))
    names = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if unlike := [name for name in names if name != "shuffle_chat"]:
        raise BadInput(
            f"{control.path} is no control of {chat.path}: they differ in {', '.join(unlike)}, too; ask it with the "
            "same options and --shuffle-chat"
        )


def _sample(side: Outcome, facts: Sequence[str]) -> Sample:
    return side.two_way_sample(facts).numbered()


def _contrast(first: Outcome, second: Outcome, facts: Sequence[str]) -> Contrast:
    every = [first.hits(1), second.hits(1)]
    one, other = (own[side.at(facts)] for side, own in zip((first, second), every, strict=True))
    made = combined("alike", [side.recipe("") for side in (first, second)], " and ")
    sample, cells = _sample(first, facts), cells_of(one, other)
    assert cells is not None  # accuracy is told of every fact that is scored
    return Contrast(
        first.wording,
        second.wording,
        (float(one.mean()), float(other.mean())),
        difference("accuracy", [(1, first), (-1, second)], every, facts, sample),
        cells,
        numbers.mean(1 - np.abs(one - other), sample, made),
    )


def _adjusted(contrasts: Sequence[Contrast]) -> list[Contrast]:
    adjusted = holm_of([one.difference.p_value for one in contrasts])
    return [one._replace(adjusted=p) for one, p in zip(contrasts, adjusted, strict=True)]


# --- tables


def tables(found: Sequence[Wordings]) -> list[Table]:
    """Accuracy in each wording, the contrasts, what they say of the template, chat and plain by relation."""
    return [_accuracies(found), _contrasts(found), _verdicts(found), _by_relation(found)]


_ABOUT = ("model", "data", "probe", "scoring")
_SIGNED = {"difference": ("low", "high", "p")}
_SHARES = {"difference": "+.1%", "p (Holm)": ".2g"}


def _about(one: Wordings) -> tuple[Cell, ...]:
    return one.model, one.data, one.probe, one.scoring


def _hidden(found: Sequence[Wordings]) -> list[str]:
    """Columns in which all lines are alike; that of the model stays."""
    return [name for name in _ABOUT[1:] if len({getattr(one, name) for one in found}) == 1]


def _accuracies(found: Sequence[Wordings]) -> Table:
    notes = [
        f"{one.model}, {one.data}: {one.left_out:,} facts that not all its runs scored are left out"
        for one in found
        if one.left_out
    ]
    return Table.of_numbers(
        (*_ABOUT, "wording", "facts", "accuracy"),
        [(*_about(one), name, one.facts, number) for one in found for name, number in one.accuracies.items()],
        "accuracy by wording",
        {"accuracy": ("low", "high")},
        {"accuracy": ".1%"},
        [f"{SHUFFLED}: the template's own tokens in random order in front of the same words", *notes],
        _hidden(found),
    )


def _contrasts(found: Sequence[Wordings]) -> Table:
    columns = ("first", "second", "facts", "of first", "of second", "difference", "p (Holm)", "smallest")
    cells = ("both right", "only first", "only second", "both wrong", "undecided")
    rows: list[tuple[Cell | Number, ...]] = []
    for one in found:
        for own in one.contrasts:
            smallest = None if own.sign else own.difference.smallest
            tested = (*own.values, own.difference, own.adjusted, smallest)
            rows.append((*_about(one), own.first, own.second, one.facts, *tested, *own.cells[:5], own.alike))
    return Table.of_numbers(
        (*_ABOUT, *columns, *cells, "alike"),
        rows,
        "differences in accuracy",
        _SIGNED | {"alike": ("alike low", "alike high")},
        _SHARES | dict.fromkeys(("of first", "of second", "smallest", "alike"), ".1%"),
        [
            "difference: first minus second, paired by fact; p (Holm): adjusted for the lines of the model",
            SMALLEST,
            "alike: share of facts that are right in both wordings, or in neither; of facts that are right by a share, "
            "1 less how far the two lie apart",
            "undecided: Hits@1 is neither 0 nor 1 in one of the runs (ties, templates that disagree)",
        ],
        ("alike low", "alike high", *_hidden(found)),
    )


def _verdicts(found: Sequence[Wordings]) -> Table:
    rows = tuple((*_about(one), one.verdict) for one in found)
    note = f"the template helps or harms where {CHAT} differs from {PLAIN} and, the same way, from {SHUFFLED}"
    return Table((*_ABOUT, "verdict"), rows, "is it the template?", hidden=frozenset(_hidden(found)), notes=(note,))


def _by_relation(found: Sequence[Wordings]) -> Table:
    rows = [
        (*_about(one), name, own.alike.n, *own.values[::-1], own.difference, own.adjusted, *own.cells[1:3][::-1])
        for one in found
        for name, own in one.relations.items()
    ]
    return Table.of_numbers(
        (*_ABOUT, "relation", "facts", PLAIN, CHAT, "difference", "p (Holm)", "right only plain", "right only in chat"),
        rows,
        f"{CHAT} and {PLAIN} by relation",
        _SIGNED,
        _SHARES | dict.fromkeys((PLAIN, CHAT), ".1%"),
        [f"difference: {CHAT} minus {PLAIN}, paired by fact; p (Holm): adjusted for the relations of the model"],
        _hidden(found),
    )
