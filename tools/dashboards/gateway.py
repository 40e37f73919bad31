"""The gateway: who comes in, and what it does without the policy."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query

GATEWAY = Dashboard(
    "greenwave-gateway",
    "gateway",
    "Do controllers come in, and does the policy answer them?",
    [
        [
            Panel(
                "Breaker",
                "The worst of all replicas. Open: the inference service is left alone, and every "
                "decision is RED.",
                [Query("greenwave:breaker:worst", "{{application}}")],
                stat=True,
                warn=1,
                alarm=2,
                names={0: "closed", 1: "half open", 2: "open"},
                width=6,
            ),
            Panel(
                "Without the policy",
                "Share of the decisions of the last five minutes.",
                [Query("greenwave:fallbacks:ratio5m", "{{application}}")],
                unit="percentunit",
                stat=True,
                warn=0.01,
                alarm=0.05,
                width=6,
            ),
            Panel(
                "Fallbacks by cause",
                "Per second. `too_slow`: the deadline; `breaker_open`: no call was made; "
                "`unreachable`: no listener.",
                [
                    Query(
                        "sum by (cause) (rate(ray_gateway_fallbacks_total[$__rate_interval]))",
                        "{{cause}}",
                    )
                ],
                unit="ops",
                stacked=True,
                width=12,
            ),
        ],
        [
            Panel(
                "The policy as the gateway sees it",
                "Duration of the calls of the inference service, of a sample: median and 99th "
                "percentile.",
                [
                    Query(
                        f"histogram_quantile({share}, sum by (le) "
                        "(rate(ray_gateway_inference_latency_ms_bucket[$__rate_interval])))",
                        name,
                    )
                    for share, name in ((0.5, "median"), (0.99, "99th percentile"))
                ],
                unit="ms",
                warn=100,
                alarm=2000,
            ),
            Panel(
                "Logins",
                "Per second, by outcome: 401 a wrong name or password, 429 too many attempts, 503 "
                "the store is away.",
                [
                    Query(
                        "sum by (outcome) (rate(ray_gateway_logins_total[$__rate_interval]))",
                        "{{outcome}}",
                    )
                ],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Tokens refused",
                "Requests per second that were answered 401: an invalid or expired token.",
                [
                    Query(
                        "sum by (route) "
                        '(rate(ray_http_request_ms_bucket_total{application="gateway", '
                        'status="401", '
                        'le="+Inf"}[$__rate_interval]))',
                        "{{route}}",
                    )
                ],
                unit="reqps",
                warn=1,
            ),
        ],
    ],
)
