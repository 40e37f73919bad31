"""Requests of every service."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query

BUCKETS = "ray_http_request_ms_bucket_total"

REQUESTS = Dashboard(
    "greenwave-requests",
    "requests",
    "Is anybody refused, and is anybody kept waiting? Measured in the services: the way through "
    "HAProxy comes on top.",
    [
        [
            Panel(
                "Requests",
                "Answers per second of each application.",
                [Query("sum by (application) (greenwave:requests:rate1m)", "{{application}}")],
                unit="reqps",
                stacked=True,
            ),
            Panel(
                "Answered 5xx",
                "Share of the answers of the last five minutes; of one a second where there are "
                "fewer.",
                [Query("greenwave:requests_failed:ratio5m", "{{application}}")],
                unit="percentunit",
                warn=0.005,
                alarm=0.02,
            ),
            Panel(
                "At work",
                "Requests that the services work on, or have waiting. Above 1,000 in one replica, "
                "further ones are "
                "refused with 503 `overloaded`.",
                [Query("sum by (application) (ray_http_requests_at_work)", "{{application}}")],
                warn=500,
                alarm=900,
            ),
        ],
        [
            Panel(
                "Median latency",
                "Half of the requests took longer. Idle, a step takes some 0.3 ms.",
                [Query("greenwave:request_ms:p50", "{{application}}")],
                unit="ms",
                warn=50,
            ),
            Panel(
                "Latency of the slowest in a hundred",
                "99th percentile. Above the gateway's deadline of 2 s, decisions are RED.",
                [Query("greenwave:request_ms:p99", "{{application}}")],
                unit="ms",
                warn=100,
                alarm=500,
            ),
            Panel(
                "Latency by route",
                "99th percentile of each route's successful requests.",
                [
                    Query(
                        "histogram_quantile(0.99, sum by (application, route, le) "
                        f'(rate({BUCKETS}{{status=~"2..", route!="other"}}[$__rate_interval])))',
                        "{{application}} {{route}}",
                    )
                ],
                unit="ms",
                warn=100,
                alarm=500,
            ),
        ],
        [
            Panel(
                "By route",
                "Requests per second. `other` are status routes, documentation and other "
                "applications' routes.",
                [
                    Query(
                        "sum by (application, method, route) (greenwave:requests:rate1m)",
                        "{{application}} {{method}} {{route}}",
                    )
                ],
                unit="reqps",
                width=12,
            ),
            Panel(
                "By status",
                "Answers per second. 499: the client had gone.",
                [
                    Query(
                        "sum by (application, status) (greenwave:requests:rate1m)",
                        "{{application}} {{status}}",
                    )
                ],
                unit="reqps",
                width=12,
            ),
        ],
        [
            Panel(
                "Answers of the edge",
                "By service and kind of status, as clients see them: with the 503 that the edge "
                "gives while a "
                "service is away.",
                [
                    Query(
                        "sum by (proxy, code) "
                        '(rate(haproxy_frontend_http_responses_total{job="edge", '
                        'proxy!="metrics"}[$__rate_interval]))',
                        "{{proxy}} {{code}}",
                    )
                ],
                unit="reqps",
            ),
            Panel(
                "Connections at the edge",
                "Each port takes 4,000; further ones wait.",
                [
                    Query(
                        'haproxy_frontend_current_sessions{job="edge", proxy!="metrics"}',
                        "{{proxy}}",
                    )
                ],
                warn=2000,
                alarm=3600,
            ),
            Panel(
                "Waiting at the edge",
                "Requests for which no server has a place. More than a moment of it: more "
                "replicas.",
                [
                    Query(  # where a hash picks the server, requests wait for that one
                        'sum by (proxy) (haproxy_backend_current_queue{job="edge"})'
                        ' + sum by (proxy) (haproxy_server_current_queue{job="edge"})',
                        "{{proxy}}",
                    )
                ],
                warn=1,
                alarm=100,
            ),
        ],
    ],
)
