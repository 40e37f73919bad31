"""A canary: a policy beside the one in service, as the serve config describes it.

Each function returns a changed config. Only one ``user_config`` changes, so no replica restarts.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np

from models.networks.network import Network
from models.policy.file import read_weights
from models.policy.form import HIDDEN_DIM
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from serve_app.configured_network import network_of
from serve_app.errors import CommandError
from serve_app.rollout.capacity import INFERENCE

Config = dict[str, Any]
UserConfig = dict[str, Any]
Mode = Literal["canary", "shadow"]

_DEPLOYMENT = "Inference"
_KEY = "canary"  # of the user_config
_DIGEST_BYTES = 6
_TRIED_STEPS = 4


def inference_app(config: Config, name: str | None) -> str:
    """Return the name of the inference application that an operator means.

    Raises:
        CommandError: there is none, there are several, or none of that name.
    """
    names = [str(each["name"]) for each in config["applications"] if _is_inference(each)]
    if name is None and len(names) == 1:
        return names[0]
    if name is not None and name in names:
        return name
    known = ", ".join(names) or "none"
    raise CommandError(f"Name an inference application with --app; there are: {known}.")


def user_config_of(config: Config, app: str) -> UserConfig:
    """Return the ``user_config`` of an inference application."""
    deployments = _application(config, app).get("deployments") or []
    found = [each.get("user_config") for each in deployments if each["name"] == _DEPLOYMENT]
    return next(filter(None, found), {})


def canary_of(user_config: UserConfig) -> UserConfig | None:
    found: UserConfig | None = user_config.get(_KEY)
    return found


def start_canary(config: Config, app: str, file: Path, mode: Mode, share: float) -> Config:
    """Add a policy beside the one in service, or change the mode or share of the canary.

    Raises:
        CommandError: the file is not a policy of this network, or another canary is running.
    """
    now = user_config_of(config, app)
    running = canary_of(now)
    states = _states_of(file, config, app)
    if running and running["states"] != states:
        raise CommandError(
            f"{running['agent_path']} is the canary already. Promote or drop it first."
        )
    if now.get("states") == states:
        raise CommandError(f"{file} is the policy in service.")
    canary = {"agent_path": str(file.resolve()), "revision": None, "states": states}
    return _with(config, app, now | {_KEY: canary | {"mode": mode, "share": share}})


def set_share(config: Config, app: str, share: float) -> Config:
    """Give the canary another share of the runs.

    Raises:
        CommandError: there is no canary, or its file has changed.
    """
    canary = _unchanged_canary(config, app)
    return _with(config, app, user_config_of(config, app) | {_KEY: canary | {"share": share}})


def promote_canary(config: Config, app: str) -> Config:
    """Put the canary in service; it keeps its hidden states.

    Raises:
        CommandError: there is no canary, or its file has changed.
    """
    canary = _unchanged_canary(config, app)
    return _with(
        config, app, {key: canary.get(key) for key in ("agent_path", "revision", "states")}
    )


def drop_canary(config: Config, app: str) -> Config:
    """Remove the canary.

    Raises:
        CommandError: there is no canary.
    """
    now = user_config_of(config, app)
    _require_canary(now)
    return _with(config, app, {key: value for key, value in now.items() if key != _KEY})


def replaced_by(config: Config, current: Config) -> list[str]:
    """Return a sentence for each canary or promoted policy of the current release that ends."""
    after = {each["name"]: each for each in config["applications"]}
    sentences = []
    for name in [app["name"] for app in current["applications"] if _is_inference(app)]:
        before = user_config_of(current, name)
        now = user_config_of(config, name) if name in after else {}
        canary = canary_of(before)
        if canary and not canary_of(now):
            sentences.append(f"The canary {canary['agent_path']} ends: the config has none.")
        if before.get("states") and before["states"] != now.get("states"):
            path = before["agent_path"]
            sentences.append(f"The promoted policy {path} is replaced: the config has another one.")
    return sentences


def _states_of(file: Path, config: Config, app: str) -> str:
    """Return the name of a policy's hidden states, which no other policy has.

    Raises:
        CommandError: the file is not a policy of this network, or its steps are not finite.
    """
    network = network_of(_application(config, app))
    weights = read_weights(file, network)
    if not _makes_steps(PolicyStep(weights, network), network):
        raise CommandError(f"{file}: the weights are so large that a step is not finite.")
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for each in weights.values():
        digest.update(each.tobytes())
    return digest.hexdigest()


def _makes_steps(policy: PolicyStep, network: Network) -> bool:
    """Try steps of each junction on a few observations, one request at a time."""
    layout = InputLayout(network)
    chance, hidden = np.random.default_rng(0), np.zeros((1, HIDDEN_DIM), np.float32)
    for agent in [*range(network.n_agents)] * _TRIED_STEPS:
        inputs = layout.encode([agent], [chance.random(network.max_obs, np.float32).round()])
        if not policy(inputs, hidden, network.unavailable[[agent]]).finite.all():
            return False
    return True


def _require_canary(user_config: UserConfig) -> UserConfig:
    if (canary := canary_of(user_config)) is None:
        raise CommandError("There is no canary. Start one with `greenwave canary start FILE`.")
    return canary


def _unchanged_canary(config: Config, app: str) -> UserConfig:
    """Return the canary, unless the next replica to start would find another file."""
    canary = _require_canary(user_config_of(config, app))
    file = Path(canary["agent_path"])
    # release 1.0 may have added a revision
    if not str(canary["states"]).startswith(_states_of(file, config, app)):
        raise CommandError(f"{file} has another policy than the canary. Drop the canary first.")
    return canary


def _is_inference(application: Config) -> bool:
    return bool(application["import_path"] == INFERENCE)


def _application(config: Config, app: str) -> Config:
    found: Config = next(each for each in config["applications"] if each["name"] == app)
    return found


def _with(config: Config, app: str, user_config: UserConfig) -> Config:
    application = _application(config, app)
    others = application.get("deployments") or []
    mine = next((each for each in others if each["name"] == _DEPLOYMENT), {"name": _DEPLOYMENT})
    changed = application | {
        "deployments": [
            *(each for each in others if each is not mine),
            mine | {"user_config": user_config},
        ]
    }
    applications = [changed if each is application else each for each in config["applications"]]
    return config | {"applications": applications}
