"""What the density forecast can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from deployments.forecast.options import ForecastOptions, MaxBody


class DensityOptions(ForecastOptions):
    """A request holds fifteen numbers."""

    max_body: MaxBody = 64 * 1024
