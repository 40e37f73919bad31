"""Signals and decisions."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query

SIGNALS = Dashboard(
    "greenwave-signals",
    "signals and decisions",
    "What do junctions get, how sure is the policy, and does it see what it has learnt?",
    [
        [
            Panel(
                "Decisions at the gateway",
                "Per second, by the signal that was answered. RED is also what a junction gets "
                "without the policy.",
                [Query("sum by (signal) (greenwave:decisions:rate1m)", "{{signal}}")],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Decisions by junction",
                "Per second. One that falls to nothing has lost its controller.",
                [Query("sum by (junction) (greenwave:decisions:rate1m)", "{{junction}}")],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Share without the policy",
                "Answers with RED because the policy did not answer. The dashboard of the gateway "
                "has the causes.",
                [Query("greenwave:fallbacks:ratio5m", "{{application}}")],
                unit="percentunit",
                warn=0.01,
                alarm=0.05,
            ),
        ],
        [
            Panel(
                "Steps of the policy",
                "Per second and junction, from the gateway and from direct clients of the "
                "inference service.",
                [
                    Query(
                        "sum by (application, junction) (greenwave:steps:rate1m)",
                        "{{application}} {{junction}}",
                    )
                ],
                unit="ops",
                stacked=True,
            ),
            Panel(
                "Actions",
                "Share of each action. A policy that always chooses the same is broken, or sees "
                "the same.",
                [
                    Query(
                        "sum by (action) (greenwave:steps:rate1m) "
                        "/ scalar(clamp_min(sum(greenwave:steps:rate1m), 0.001))",
                        "action {{action}}",
                    )
                ],
                unit="percentunit",
                stacked=True,
            ),
            Panel(
                "Doubt",
                "Mean entropy of the distribution over actions in nats, of a sample; ln 4 = 1.39 "
                "is a coin thrown. "
                "It rises when traffic is new to the policy.",
                [
                    Query(
                        "sum by (application, policy) "
                        "(rate(ray_inference_entropy_sum[$__rate_interval])) / "
                        "sum by (application, policy) "
                        "(rate(ray_inference_entropy_count[$__rate_interval]))",
                        "{{application}} {{policy}}",
                    )
                ],
                warn=0.9,
                alarm=1.2,
            ),
        ],
        [
            Panel(
                "Observations unlike the training",
                "Share of observed values outside the range that the policy was trained on, of a "
                "sample.",
                [Query("greenwave:observations_outside:ratio5m", "{{application}}")],
                unit="percentunit",
                warn=0.1,
                alarm=0.2,
            ),
            Panel(
                "Duration of a step",
                "99th percentile of a batched GRU step, of a sample.",
                [
                    Query(
                        "histogram_quantile(0.99, sum by (application, le) "
                        "(rate(ray_inference_step_ms_bucket[$__rate_interval])))",
                        "{{application}}",
                    )
                ],
                unit="ms",
                warn=2,
                alarm=10,
            ),
            Panel(
                "Rows of a step",
                "Mean number of requests that share a step, of a sample. It rises with the load.",
                [
                    Query(
                        "sum by (application) "
                        "(rate(ray_inference_batch_size_sum[$__rate_interval])) / "
                        "sum by (application) "
                        "(rate(ray_inference_batch_size_count[$__rate_interval]))",
                        "{{application}}",
                    )
                ],
            ),
        ],
    ],
)
