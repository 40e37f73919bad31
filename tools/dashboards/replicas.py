"""Replicas, autoscaling, and what they run on."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query

# Ray calls a process by what it does at the moment, such as ray::StateActor.listen.
_PROCESS = "(?:ray::)?(?:SERVE_REPLICA::[^:]*:)?([^.]*).*"
_MEMORY = (
    "sum by (process) (label_replace(ray_component_uss_bytes, "
    f'"process", "$1", "Component", "{_PROCESS}"))'
)

REPLICAS = Dashboard(
    "greenwave-replicas",
    "replicas and autoscaling",
    "Is everything that should run there, does it follow the load, and is there room?",
    [
        [
            Panel(
                "Replicas that serve",
                "By application; autoscaling moves them between min_replicas and max_replicas.",
                [Query("sum by (application) (greenwave:replicas:healthy)", "{{application}}")],
            ),
            Panel(
                "Replicas wanted",
                "What the autoscaler, or the config, asks for.",
                [
                    Query(
                        "sum by (application) (ray_serve_autoscaling_target_replicas)",
                        "{{application}}",
                    )
                ],
            ),
            Panel(
                "Replicas missing",
                "Wanted and not there: they start, find no room, or fail. For minutes: see Ray's "
                "dashboard.",
                [Query("sum by (application) (greenwave:replicas:missing)", "{{application}}")],
                warn=1,
            ),
        ],
        [
            Panel(
                "Requests in each replica",
                "At work at this moment. The autoscaler counts these; one replica alone with many: "
                "its run is busy.",
                [Query("ray_http_requests_at_work", "{{application}} {{replica}}")],
                warn=500,
                alarm=900,
            ),
            Panel(
                "Starts of replicas",
                "In the last hour. More than rescales and upgrades account for: something crashes.",
                [
                    Query(
                        "sum by (application) "
                        "(increase(ray_serve_deployment_replica_starts_total[1h]))",
                        "{{application}}",
                    )
                ],
            ),
            Panel(
                "State of the applications",
                "As Serve reports it.",
                [Query("min by (application) (ray_serve_application_status)", "{{application}}")],
                stat=True,
                names={
                    1: "deploy failed",
                    2: "unhealthy",
                    3: "not started",
                    4: "deleting",
                    5: "deploying",
                    6: "running",
                },
            ),
        ],
        [
            Panel(
                "Processors",
                "Share of each node that is busy.",
                [Query("max by (ip) (ray_node_cpu_utilization) / 100", "{{ip}}")],
                unit="percentunit",
                warn=0.7,
                alarm=0.95,
            ),
            Panel(
                "Memory",
                "Share of each node that is used. From 0.95 on, Ray kills workers.",
                [Query("greenwave:memory:used", "{{ip}}")],
                unit="percentunit",
                warn=0.8,
                alarm=0.9,
            ),
            Panel(
                "Memory of the processes",
                "Own resources, by kind of process. A line that only rises is a leak.",
                [Query(_MEMORY, "{{process}}")],
                unit="bytes",
                stacked=True,
            ),
        ],
        [
            Panel(
                "Servers that the edge reaches",
                "By service. At 0, clients get 503.",
                [Query("greenwave:edge_servers:up", "{{proxy}}")],
                width=12,
            ),
            Panel(
                "Delay of the event loops",
                "99th percentile of how late a replica's loop is: all of its requests wait that "
                "long.",
                [
                    Query(
                        "histogram_quantile(0.99, sum by (application, le) "
                        "(rate(ray_serve_event_loop_scheduling_latency_ms_bucket"
                        '{component="replica"}[5m])))',
                        "{{application}}",
                    )
                ],
                unit="ms",
                warn=20,
                alarm=200,
                width=12,
            ),
        ],
    ],
)
