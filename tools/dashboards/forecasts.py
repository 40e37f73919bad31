"""The forecasts, and whether their inputs are what they have learnt."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query

_OF_EACH = ("density", "flow")

FORECASTS = Dashboard(
    "greenwave-forecasts",
    "forecasts",
    "Are forecasts requested and fast, and do their inputs look like those of the training?",
    [
        [
            Panel(
                "Predictions",
                "Per second.",
                [
                    Query(f"sum(rate(ray_{name}_predictions_total[$__rate_interval]))", name)
                    for name in _OF_EACH
                ],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Duration of a model call",
                "99th percentile, of a sample.",
                [
                    Query(
                        f"histogram_quantile(0.99, sum by (le) "
                        f"(rate(ray_{name}_model_ms_bucket[$__rate_interval])))",
                        name,
                    )
                    for name in _OF_EACH
                ],
                unit="ms",
                warn=5,
                alarm=20,
            ),
            Panel(
                "Predictions per model call",
                "Mean, of a sample. It rises with the load.",
                [
                    Query(
                        f"sum(rate(ray_{name}_batch_size_sum[$__rate_interval])) / "
                        f"sum(rate(ray_{name}_batch_size_count[$__rate_interval]))",
                        name,
                    )
                    for name in _OF_EACH
                ],
            ),
        ],
        [
            Panel(
                "Drift of the density's inputs",
                "Share of the values of each edge outside the range of the training, of the newest "
                "calls. One edge "
                "alone: a broken detector. All: traffic, or units, have changed.",
                [Query('greenwave:input_drift:share{application="density"}', "{{column}}")],
                unit="percentunit",
                warn=0.1,
                alarm=0.2,
                width=12,
            ),
            Panel(
                "Drift of the flow's inputs",
                "The same, by feature.",
                [Query('greenwave:input_drift:share{application="flow"}', "{{column}}")],
                unit="percentunit",
                warn=0.1,
                alarm=0.2,
                width=12,
            ),
        ],
    ],
)
