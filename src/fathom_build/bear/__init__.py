"""Balanced probes from Wikidata, made as BEAR was made (Wiland et al. 2024, sections 2 and 4)."""

from fathom_build.bear.build import BuiltBear, build_bear, forecast_bear
from fathom_build.bear.plan import BearPlan, read_plan

__all__ = ["BearPlan", "BuiltBear", "build_bear", "forecast_bear", "read_plan"]
