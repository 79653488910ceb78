"""Options of plans; loads no model library."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator

from fathom.base.options import CIRCUMSTANCE, Given, Group, opt
from fathom.data.selection.options import Words
from fathom.probes.options import HERE, ClusterOptions, Part


class PlanRights(BaseModel):
    """What the runs of a plan may do, if the plan asks for it. A file alone gives no right (fathom.base.rights)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    group: ClassVar = Group.SERVER

    allow_server: Words = opt((), "Servers that the plan may query besides those on this machine: base URLs.")
    key_env: Words = opt((), "Environment variables with keys that the plan may send to its servers.")
    trust_remote_code: bool = opt(False, "Let the plan run code that comes with its models.", Group.MODEL)
    allow_pickle: bool = opt(False, "Let the plan read .bin weights, which can run code.", Group.MODEL)

    def typed(self) -> Given:
        """Return the rights by the names of the options in a plan."""
        typed = self.model_dump(include={"key_env", "trust_remote_code", "allow_pickle"})
        return typed | {"server": self.allow_server}


class WorkerOptions(ClusterOptions):
    """The place where the steps of a plan run. These options never affect results."""

    engine: Literal["here", "ray"] = opt(
        HERE, "Where runs are made: on this machine, or on workers of a Ray cluster.", CIRCUMSTANCE
    )
    workers: int | None = opt(
        None,
        "Number of simultaneous runs, by default one; each then uses one core. With --engine ray: workers, by "
        "default one per GPU, or one.",
        CIRCUMSTANCE,
        ge=1,
    )
    part: Part = opt(
        None,
        "Make one part of a plan that several processes share: i/n, such as 1/4, or auto, from the environment of "
        "SLURM or torchrun.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    @field_validator("gpus_per_worker", "cpus_per_worker", "ray_address")
    @classmethod
    def _only_with_ray(cls, value: object, info: ValidationInfo) -> Any:
        """Check all but ``workers``, which without an engine are processes of this machine."""
        return super()._only_with_ray(value, info)
