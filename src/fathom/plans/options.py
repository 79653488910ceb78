"""Options of plans; loads no model library."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ValidationInfo, field_validator

from fathom.base.options import CIRCUMSTANCE, Group, opt
from fathom.probes.options import HERE, ClusterOptions, Part


class WorkerOptions(ClusterOptions):
    """The place where the steps of a plan run. These options never affect results."""

    engine: Literal["here", "ray"] = opt(
        HERE, "Where runs are made: on this machine, or on workers of a Ray cluster.", CIRCUMSTANCE
    )
    workers: int | None = opt(
        None,
        "Runs to make at a time, by default one; each then uses one core. With --engine ray: workers, by default one "
        "per GPU, or one.",
        CIRCUMSTANCE,
        ge=1,
    )
    part: Part = opt(
        None,
        "Be one of several processes that share a plan: i/n, such as 1/4, or auto, from the environment of SLURM or "
        "torchrun.",
        Group.RUN,
        CIRCUMSTANCE,
    )

    @field_validator("gpus_per_worker", "cpus_per_worker", "ray_address")
    @classmethod
    def _only_with_ray(cls, value: Any, info: ValidationInfo) -> Any:
        """Check all but ``workers``, which without an engine are processes of this machine."""
        return super()._only_with_ray(value, info)
