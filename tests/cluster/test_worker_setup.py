"""The raylet starts workers by our setup_worker.py, which does not import Ray."""

from deployments.ray_private.command import SETUP_WORKER


def test_the_raylet_starts_workers_without_rays_own_setup(system):
    (raylet,) = [each for each in system.instance.processes() if each.name() == "raylet"]
    command = " ".join(raylet.cmdline())
    assert str(SETUP_WORKER) in command
    assert "ray/_private/workers/setup_worker.py" not in command
