"""Options shared by all probes, those of link predictors included, and where shards run."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from fathom.base.options import CIRCUMSTANCE, CLUSTER, Group, identity_of, opt, separated
from fathom.data.selection.options import BasicSelectionOptions

Numbers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(separated)]
DIRECTIONS = (
    "Directions of a graph's triples: (head, relation, ?), (?, relation, tail), or both; --limit counts triples."
)


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


HERE: Final = "here"
"""The engine that is this process."""


class ClusterOptions(BaseModel):
    """Options for where shards run. These options never affect results."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.CLUSTER

    engine: Literal["here", "ray"] = opt(
        HERE, "Where shards run: this process, or workers of a Ray cluster.", CIRCUMSTANCE
    )
    workers: int | None = opt(
        None,
        "With --engine ray: workers, each with the model loaded; by default one per GPU, or one.",
        CIRCUMSTANCE,
        ge=1,
    )
    gpus_per_worker: float | None = opt(
        None,
        "With --engine ray: GPUs of each worker, or a share of one, such as 0.5; by default 1 if the cluster has any.",
        CIRCUMSTANCE,
        ge=0,
    )
    cpus_per_worker: int = opt(1, "With --engine ray: CPUs of each worker, and its threads.", CIRCUMSTANCE, ge=1)
    ray_address: str | None = opt(
        None,
        "With --engine ray: address of a running cluster, HOST:PORT or auto; by default RAY_ADDRESS, or "
        "else a cluster on this machine for this run alone.",
        CIRCUMSTANCE,
    )

    @field_validator("workers", "gpus_per_worker", "cpus_per_worker", "ray_address")
    @classmethod
    def _only_with_ray(cls, given: Any, info: ValidationInfo) -> Any:
        if info.data.get("engine") == HERE and given != cls.model_fields[str(info.field_name)].default:
            raise ValueError("expected only with --engine ray")
        return given


class EvaluationOptions(ClusterOptions, BasicSelectionOptions):
    """Options shared by all probes: data selection, device, seed, and where shards run."""

    device: str | None = opt(None, "cpu, cuda, cuda:1, …; by default a GPU if there is one.", Group.RUN, CIRCUMSTANCE)
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
        "Be one of several processes that share a run: i/n, such as 1/4, or auto, as set by SLURM or "
        "torchrun; in one folder, or in folders of their own for fathom merge.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    def identity(self) -> dict[str, Any]:
        return identity_of(self)
