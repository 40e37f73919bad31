"""Private API of Ray itself, without Serve: importing Serve takes most of a second."""

from __future__ import annotations

from ray._private.state import state
from ray._private.utils import estimate_available_memory, get_num_cpus
from ray.util.metrics import Counter


def read_actor_process(actor_id: str) -> tuple[str, int]:
    """Return node id and process id of an actor, as the GCS knows it; block until it answers.

    A dead actor has no process: another one may have its name. The public state API needs the
    dashboard, which may not run.
    """
    actor = state.actor_table(actor_id)
    if actor["State"] == "DEAD":
        return "", 0
    return actor["Address"]["NodeID"], actor["Pid"]


def read_actor_places() -> dict[str, str]:
    """Return the node id of each living named actor; block until the GCS answers."""
    actors = state.actor_table(None, actor_state_name="ALIVE").values()
    return {actor["Name"]: actor["Address"]["NodeID"] for actor in actors if actor["Name"]}


def available_cpus() -> float:
    """Return the CPUs that Ray finds on this machine, within a container's limit."""
    return float(get_num_cpus(override_docker_cpu_warning=True))


def available_memory() -> int:
    """Return the bytes that Ray finds free on this machine, within a container's limit."""
    return int(estimate_available_memory())


def count_nothing(counter: Counter, tags: dict[str, str]) -> None:
    """Export a counter at 0, which its ``inc`` refuses."""
    counter._record(0.0, tags=tags)
