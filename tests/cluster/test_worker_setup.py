"""How Ray's workers are started, and by which names its dashboard lists them."""

import psutil

from deployments.ray_private.command import SETUP_WORKER
from load_tests.harness.system import list_of


def test_the_raylet_starts_workers_without_rays_own_setup(system):
    (raylet,) = [each for each in system.instance.processes() if each.name() == "raylet"]
    command = " ".join(raylet.cmdline())
    assert str(SETUP_WORKER) in command
    assert "ray/_private/workers/setup_worker.py" not in command


def test_replicas_and_what_manages_them_are_forked_from_one_process(system):
    replicas = system.replicas("inference") + system.processes("ray::ServeController")
    (server,) = {each.ppid() for each in replicas}
    assert "fork_server.py" in " ".join(psutil.Process(server).cmdline())


def test_ray_lists_replicas_and_state_actors_by_names_that_an_operator_knows(system):
    actors = list_of(system.instance.dashboard, "actors")
    listed = {each[key] for each in actors for key in ("class_name", "name", "repr_name")}
    own = {"StateActor(inference, shard 0)", "hidden_states:inference/0"}
    assert own | {"ServeReplica:inference:Inference"} <= listed
