"""Customer records and their store."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query

OPERATIONS = "ray_customer_record_operations_total"

RECORDS = Dashboard(
    "greenwave-records",
    "customer records",
    "Are records served, and does the store keep up?",
    [
        [
            Panel(
                "Operations",
                "Per second and service.",
                [
                    Query(
                        f"sum by (service, operation) (rate({OPERATIONS}[$__rate_interval]))",
                        "{{service}} {{operation}}",
                    )
                ],
                unit="ops",
                stacked=True,
                width=12,
            ),
            Panel(
                "Failures of the store",
                "Share of the operations of the last five minutes. Clients get 503, and may try "
                "again.",
                [Query("greenwave:records_failed:ratio5m", "{{application}}")],
                unit="percentunit",
                warn=0.001,
                alarm=0.01,
                width=12,
            ),
        ],
        [
            Panel(
                "Outcomes",
                "Per second. `duplicate`, `not_found` and `invalid` are refusals that the contract "
                "asks for.",
                [
                    Query(
                        f"sum by (outcome) (rate({OPERATIONS}[$__rate_interval]))",
                        "{{outcome}}",
                    )
                ],
                unit="ops",
            ),
            Panel(
                "Median time in the store",
                "Of a sample. SQLite reads in 0.3 ms and writes in 0.9; Redis in 0.4 and 0.7.",
                [
                    Query(
                        "histogram_quantile(0.5, sum by (service, operation, le) "
                        "(rate(ray_customer_record_store_latency_ms_bucket[$__rate_interval])))",
                        "{{service}} {{operation}}",
                    )
                ],
                unit="ms",
                warn=10,
            ),
            Panel(
                "Slowest in a hundred",
                "99th percentile of the time in the store. A disk that others write to is the "
                "usual cause.",
                [
                    Query(
                        "histogram_quantile(0.99, sum by (service, operation, le) "
                        "(rate(ray_customer_record_store_latency_ms_bucket[$__rate_interval])))",
                        "{{service}} {{operation}}",
                    )
                ],
                unit="ms",
                warn=50,
                alarm=500,
            ),
        ],
    ],
)
