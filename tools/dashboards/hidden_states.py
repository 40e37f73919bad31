"""Hidden states: where they are, and what a crash would cost."""

from __future__ import annotations

from tools.dashboards.model import Dashboard, Panel, Query


def _rate(name: str) -> Query:
    return Query(
        f"sum by (application) (rate(ray_inference_{name}_total[$__rate_interval]))",
        "{{application}}",
    )


HIDDEN_STATES = Dashboard(
    "greenwave-hidden-states",
    "hidden states",
    "Is every memory kept, by one replica at a time, and committed? docs/hidden-states.md explains "
    "what is promised.",
    [
        [
            Panel(
                "Kept",
                "Hidden states: one for each run and junction.",
                [Query("greenwave:hidden_states:kept", "{{application}}")],
            ),
            Panel(
                "Share of what may be kept",
                "At 1, new runs are refused with 503 `too_many_states`.",
                [Query("greenwave:hidden_states:used", "{{application}}")],
                unit="percentunit",
                warn=0.7,
                alarm=0.9,
            ),
            Panel(
                "Refused for want of a place",
                "Requests per second for states that were unavailable.",
                [_rate("requests_without_place")],
                unit="reqps",
                warn=0.1,
            ),
        ],
        [
            Panel(
                "Age of the oldest uncommitted step",
                "What a crash of its replica would cost at this moment, in milliseconds. From "
                "loss_bound_s (10 ms) on, "
                "answers wait for their commits.",
                [Query("greenwave:oldest_uncommitted_ms:max", "{{application}}")],
                unit="ms",
                warn=100,
                alarm=1000,
            ),
            Panel(
                "Commit lag",
                "From a step to the acknowledgement of its commit, the latest of each replica.",
                [
                    Query(
                        "ray_inference_commit_lag_ms",
                        "{{application}} {{replica}}",
                    )
                ],
                unit="ms",
                warn=50,
                alarm=1000,
            ),
            Panel(
                "States in a commit",
                "Mean number. It rises with the load: what is stepped meanwhile travels together.",
                [
                    Query(
                        "sum by (application) "
                        "(rate(ray_inference_states_committed_total[$__rate_interval])) / "
                        "clamp_min(sum by (application) "
                        "(rate(ray_inference_commits_total[$__rate_interval])), 0.001)",
                        "{{application}}",
                    )
                ],
            ),
        ],
        [
            Panel(
                "Moves",
                "Hidden states given back per second because another replica asked. Next to none, "
                "but for rescales and "
                "deaths: a run stays at one replica.",
                [_rate("recalls")],
                unit="ops",
                warn=10,
            ),
            Panel(
                "Moves per step",
                "Of the last five minutes. Each costs a wait of milliseconds.",
                [Query("greenwave:moves_per_step:ratio5m", "{{application}}")],
                unit="percentunit",
                warn=0.01,
                alarm=0.05,
            ),
            Panel(
                "Refused commits",
                "States per second whose commit was refused, because another replica owned them: "
                "steps that are void. "
                "Only when a replica was out of reach for longer than its lease.",
                [_rate("states_refused")],
                unit="ops",
                warn=0.01,
                alarm=1,
            ),
        ],
        [
            Panel(
                "Recoveries of the state actor",
                "New terms in the last hour. Each costs the steps that were not committed, a few "
                "milliseconds' worth.",
                [
                    Query(
                        "changes(greenwave:hidden_states:life[1h])",
                        "{{application}} shard {{shard}}",
                    )
                ],
                warn=1,
                alarm=3,
            ),
            Panel(
                "Duration of the last recovery",
                "From the start of the state actor's present term until it granted states.",
                [
                    Query(
                        "max by (application, shard) (ray_hidden_states_recovery_ms)",
                        "{{application}} shard {{shard}}",
                    )
                ],
                unit="ms",
                warn=3000,
                alarm=10000,
            ),
            Panel(
                "Sessions opened",
                "By replicas in the last hour: one at their start, one more after each trouble "
                "with the state actor.",
                [
                    Query(
                        "sum by (application) (increase(ray_inference_sessions_total[1h]))",
                        "{{application}}",
                    )
                ],
            ),
        ],
    ],
)
