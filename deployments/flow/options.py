"""What the flow forecast can be told in a serve config, as ``args`` of its application."""

from __future__ import annotations

from deployments.forecast.options import ForecastOptions, MaxBody


class FlowOptions(ForecastOptions):
    """A week of samples fits, a million do not."""

    max_body: MaxBody = 1024 * 1024
