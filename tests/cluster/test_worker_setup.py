"""The raylet starts workers by our setup_worker.py, which has them forked."""

import psutil

from deployments.ray_private.command import SETUP_WORKER


def test_the_raylet_starts_workers_without_rays_own_setup(system):
    (raylet,) = [each for each in system.instance.processes() if each.name() == "raylet"]
    command = " ".join(raylet.cmdline())
    assert str(SETUP_WORKER) in command
    assert "ray/_private/workers/setup_worker.py" not in command


def test_replicas_and_what_manages_them_are_forked_from_one_process(system):
    replicas = system.replicas("inference") + system.processes("ray::Serve")
    (server,) = {each.ppid() for each in replicas}
    assert "fork_server.py" in " ".join(psutil.Process(server).cmdline())
