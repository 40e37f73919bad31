"""Hidden states: how many there are, how old their copies are, and what replicas wait for."""

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
    "Is every memory kept and copied, and does nothing wait for it? docs/hidden-states.md explains "
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
                "Requests per second for new states beyond `max_states`.",
                [_rate("requests_without_place")],
                unit="reqps",
                warn=0.1,
            ),
        ],
        [
            Panel(
                "Age of the copies in the store",
                "What the loss of a machine would cost at this moment, in milliseconds: about "
                "`snapshot_period_s`. More while the store is away.",
                [Query("greenwave:hidden_states:copy_lag_ms", "{{application}} shard {{shard}}")],
                unit="ms",
                warn=5000,
                alarm=60000,
            ),
            Panel(
                "Longest wait for other changes",
                "A replica changes the states of a shard when no other process does: next to "
                "nothing, unless a process is stopped during a change.",
                [Query("max by (application) (ray_inference_lock_wait_ms)", "{{application}}")],
                unit="ms",
                warn=50,
                alarm=1000,
            ),
            Panel(
                "New terms of the state actor",
                "In the last hour: restarts, and moves to other nodes. Steps go on, but those of "
                "other machines wait.",
                [
                    Query(
                        "changes(greenwave:hidden_states:life[1h])",
                        "{{application}} shard {{shard}}",
                    )
                ],
                warn=1,
                alarm=3,
            ),
        ],
        [
            Panel(
                "Steps made again",
                "Per second, because another replica had changed the state meanwhile. Next to "
                "none: a run stays at one replica.",
                [_rate("raced_rows")],
                unit="ops",
                warn=10,
                width=12,
            ),
            Panel(
                "Share of the steps that are made again",
                "Of the last five minutes.",
                [Query("greenwave:steps_raced:ratio5m", "{{application}}")],
                unit="percentunit",
                warn=0.01,
                alarm=0.05,
                width=12,
            ),
        ],
    ],
)
