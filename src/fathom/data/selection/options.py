"""Options that select queries and candidates, for :func:`fathom.data.selection.filters.select`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from fathom.base.options import CIRCUMSTANCE, EVERYTHING, LATER, Group, Names, Seed, opt, separated
from fathom.data.column_names import checked_columns

Reading = Literal["auto", "template-based", "template-free"]
Alteration = Literal["no", "negated", "misprimed", "paraphrased", "truncated", "no-subject"]
Words = Annotated[tuple[str, ...], BeforeValidator(separated)]
Directions = Annotated[tuple[Literal["tail", "head"], ...], BeforeValidator(separated), Field(min_length=1)]

Columns = Annotated[
    str | None,
    BeforeValidator(checked_columns),
    opt(
        None,
        "Columns of files of triples: hrt (head, relation, tail; the default) or htr (head, tail, relation, the order "
        "of FB15k and WN18 as first published). Columns of a table: subject=NAME,relation=NAME,answer=NAME.",
        Group.DATA,
        LATER,
    ),
]
"""An option of all commands that read data."""


class BasicSelectionOptions(BaseModel):
    """Selection options of all probes, those of link predictors included."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    group: ClassVar = Group.SELECTION

    columns: Columns = None
    relations: Words = opt((), "Evaluate only these relations, by id or label, separated by commas.")
    split: str | None = opt(None, "Split of a knowledge graph: train, dev, test (the default) or all.")
    limit: int | None = opt(None, "Evaluate at most this many queries, drawn at random by --seed.", ge=1)
    seed: Seed = opt(0, "Seed of all random choices.", Group.RUN)


class SelectionOptions(BasicSelectionOptions):
    """Selection options of probes of language models."""

    config_only: ClassVar[Names] = ("exclude_tails", "tail_tokens", "tokens_after_space", "candidates")

    subset: str | None = opt(
        None, "A named part of the data, e.g. lite for BEAR, or all of it; or a .csv file with a column fact."
    )
    exclude_tails: Words = opt((), "Exclude queries with these gold answers (names or ids).")
    tail_tokens: str | None = opt(
        None, "Keep only queries whose gold answer has this many tokens for the model: 1, or a range such as 2-4."
    )
    single_token: bool = opt(
        False, "Keep only queries and candidates whose name is one token for the model, as LAMA requires."
    )
    tokens_after_space: bool = opt(
        False, "Count a name's tokens after a space; otherwise without a space, as in the DEER paper."
    )
    candidates: Literal["all", "asked"] = opt(
        "all", "Candidates from a knowledge graph: all entities, or heads and tails of the selected queries (asked)."
    )
    reading: Reading = opt(
        "auto",
        "Phrasing of facts that have both: the relation's template, or the fact's natural "
        "sentence (auto: by template if there is one).",
    )
    sentences: Literal["first", "all"] = opt(
        "first", "Which of a fact's natural sentences to use: the first that fits, or all, averaged per fact."
    )
    any_surface: bool = opt(False, "Also use natural sentences that mask other words than the answer's name.")
    alter: Alteration = opt(
        "no",
        "Alter each fact's sentence: negated (only if the data has it), misprimed (a wrong candidate precedes it), "
        "paraphrased (further templates), truncated (after the answer), no-subject (the answers' prior).",
        LATER,
    )
    pool: str | None = opt(
        None,
        "Candidates of a query: relation (the answer space given by the data; in a graph, all answers of the "
        "relation), data (the answers of all relations together), or a file with one name per line.",
    )
    add_candidates: Path | None = opt(
        None,
        "File with more candidates, one name per line, or a data folder whose candidates are added.",
        CIRCUMSTANCE,  # its content is part of the identity, its path is not
    )


class Selection(SelectionOptions):
    """A complete selection; by default everything (of a graph with splits: the ``test`` split).

    :param directions: directions of a graph's triples; a triple kept by the filters is evaluated in all of them.
        Empty: as in the data.
    :param reverse: query subjects, by the templates read in reverse.
    :param ids: ids of queries; the limit does not apply to them.
    """

    model_config = ConfigDict(from_attributes=True)

    directions: tuple[Literal["tail", "head"], ...] = ()
    reverse: bool = False
    ids: frozenset[str] | None = None

    @classmethod
    def from_options(cls, options: BasicSelectionOptions) -> Selection:
        """Return the selection of any options model; what it does not have stays at its default."""
        return cls.model_validate(options)

    @property
    def changes_candidates(self) -> bool:
        """Return whether candidates differ from those of the data."""
        return self.pool is not None or self.add_candidates is not None

    @property
    def part(self) -> str | None:
        """The subset, or None for all of the data."""
        return None if self.subset == EVERYTHING else self.subset
