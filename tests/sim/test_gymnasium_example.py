"""examples/gymnasium_env keeps to the interface of Gymnasium."""

from __future__ import annotations

import pytest

pytest.importorskip("libsumo", reason="SUMO is not installed")

from gymnasium.utils.env_checker import check_env

from examples.gymnasium_env.env import TrafficEnv


def test_the_environment_passes_gymnasiums_checker() -> None:
    env = TrafficEnv(60)
    check_env(env, skip_render_check=True)
    env.close()
