"""Options of everything that asks, probes and link predictors alike, and of who does the asking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from fathom.options import CIRCUMSTANCE, CLUSTER, Group, Seed, identity_of, opt, separated

if TYPE_CHECKING:  # not needed to show --help
    from fathom.data.selection.filters import Selection

Words = Annotated[tuple[str, ...], BeforeValidator(separated)]
Numbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(separated)]
Directions = Annotated[tuple[Literal["tail", "head"], ...], BeforeValidator(separated), Field(min_length=1)]

DIRECTIONS = "Of a knowledge graph: ask (head, relation, ?), (?, relation, tail), or both; --limit then counts triples."


def _tokens_or_auto(given: Any) -> Any:
    """:raises ValueError: neither a number from 1 on nor "auto"."""
    if given is None or given == "auto":
        return given
    if isinstance(given, bool) or not str(given).strip().isdecimal() or int(given) < 1:
        raise ValueError(f"expected a number of tokens, 1 or more, or auto, found {given!r}")
    return int(given)


def _part_or_auto(given: Any) -> Any:
    """:raises ValueError: neither i/n with 1 ≤ i ≤ n nor "auto"."""
    if given is None or given == "auto":
        return given
    number, slash, of = str(given).replace(" ", "").partition("/")
    if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise ValueError(f"expected i/n with i from 1 to n, such as 1/4, or auto, found {given!r}")
    return f"{int(number)}/{int(of)}"


Part = Annotated[str | None, BeforeValidator(_part_or_auto)]
BatchTokens = Annotated[int | str | None, BeforeValidator(_tokens_or_auto)]


class EvaluationOptions(BaseModel):
    """What everything that asks can be told: which part of the data, where, and from what seed."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())
    group: ClassVar = Group.SELECTION

    device: str | None = opt(
        None, "cpu, cuda, cuda:1, …; by default a GPU where there is one.", Group.RUN, CIRCUMSTANCE
    )
    relations: Words = opt((), "Ask only these relations, separated by commas.")
    split: str | None = opt(None, "Split of a knowledge graph to ask: train, dev, test (the default) or all.")
    limit: int | None = opt(None, "Ask at most this many queries, drawn at random by --seed.", ge=1)
    seed: Seed = opt(0, "Seed of every random choice.", Group.RUN)
    batch_tokens: BatchTokens = opt(
        None,
        "Tokens per forward pass; by default 2,048 on a CPU, 16,384 elsewhere; auto: by the free memory, "
        "up to four times that; halved when memory runs out.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    cluster: str = opt("", CLUSTER, Group.OUTPUT, CIRCUMSTANCE)
    part: Part = opt(
        None,
        "Be one of several processes that share a run: i/n, such as 1/4, or auto, by what SLURM or "
        "torchrun have set; in one folder, or in folders of their own for fathom merge.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    def selection(self) -> Selection:
        """Which queries and candidates."""
        from fathom.data.selection.filters import Selection

        return Selection(split=self.split, relations=self.relations, limit=self.limit, seed=self.seed)

    def identity(self) -> dict[str, Any]:
        """The fields that can change a number."""
        return identity_of(self)


HERE: Final = "here"
"""The engine that is this process."""


class ClusterOptions(BaseModel):
    """Who asks the shards of a run. None of it changes a number."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.CLUSTER

    engine: Literal["here", "ray"] = opt(HERE, "Who asks: this process, or workers of a Ray cluster.", CIRCUMSTANCE)
    workers: int | None = opt(
        None,
        "With --engine ray: workers, each with the model loaded; by default one per GPU, or one.",
        CIRCUMSTANCE,
        ge=1,
    )
    gpus_per_worker: float | None = opt(
        None,
        "With --engine ray: GPUs of each worker, also a part of one, such as 0.5; by default 1 where the "
        "cluster has any.",
        CIRCUMSTANCE,
        ge=0,
    )
    cpus_per_worker: int = opt(1, "With --engine ray: CPUs of each worker, and its threads.", CIRCUMSTANCE, ge=1)
    ray_address: str | None = opt(
        None,
        "With --engine ray: of a cluster that is running, HOST:PORT or auto; by default RAY_ADDRESS, or "
        "else a cluster on this machine, for this run alone.",
        CIRCUMSTANCE,
    )

    @field_validator("workers", "gpus_per_worker", "cpus_per_worker", "ray_address")
    @classmethod
    def _of_an_engine(cls, given: Any, info: ValidationInfo) -> Any:
        """:raises ValueError: it would change nothing, and somebody would wait for workers that do not come."""
        if info.data.get("engine") == HERE and given != cls.model_fields[str(info.field_name)].default:
            raise ValueError("expected only with --engine ray")
        return given
