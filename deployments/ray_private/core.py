"""Of Ray itself. Serve takes most of a second to import, and a restarted state actor is waited
for."""

from __future__ import annotations

from pathlib import Path

from ray._private import worker
from ray._private.state import state
from ray._private.utils import estimate_available_memory, get_num_cpus
from ray.util.metrics import Counter

SERVE_NAMESPACE = "serve"
"""Replicas are actors of this namespace; only the name of one's own is public."""


def read_actor_process(actor_id: str) -> tuple[str, int]:
    """Return node id and process id that the GCS knows an actor by; blocks until it answers.

    An actor that it holds to be dead for good has no process: another one may bear its name.
    The public state API asks the dashboard, which is not always there.
    """
    actor = state.actor_table(actor_id)
    if actor["State"] == "DEAD":
        return "", 0
    return actor["Address"]["NodeID"], actor["Pid"]


def read_actor_places() -> dict[str, str]:
    """Return the node id of each living named actor; blocks until the GCS answers."""
    actors = state.actor_table(None, actor_state_name="ALIVE").values()
    return {actor["Name"]: actor["Address"]["NodeID"] for actor in actors if actor["Name"]}


def logs_folder() -> Path:
    """Return the folder of this node's logs; Serve has its own in ``serve`` below it."""
    return Path(worker._global_node.get_logs_dir_path())


def available_cpus() -> float:
    """Return the CPUs that Ray finds on this machine: within a container, those of its limit."""
    return float(get_num_cpus(override_docker_cpu_warning=True))


def available_memory() -> int:
    """Return the bytes that Ray finds free on this machine, within a container's limit."""
    return int(estimate_available_memory())


def count_nothing(counter: Counter, tags: dict[str, str]) -> None:
    """Have a counter exported at 0; its own ``inc`` refuses that."""
    counter._record(0.0, tags=tags)
