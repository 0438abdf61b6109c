"""What a metric declares of itself. sacreBLEU is not imported here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from zoo.found import imported

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as SacreMetric


@dataclass(frozen=True)
class Metric:
    """A score that a plugin brings; `zoo eval` gives it beside its own, under its name.

    `metric` says where its class is found, as `"package.module:Class"`, imported on first use: a
    subclass of sacreBLEU's `Metric` that is made without arguments, which gives it intervals and
    tests by bootstrap.
    """

    name: str
    summary: str
    metric: str

    def make(self) -> SacreMetric:
        """Import the class and make one.

        Raises:
            PluginError: it cannot be imported.
        """
        return cast("SacreMetric", imported(self.metric, f"metric {self.name!r}")())
