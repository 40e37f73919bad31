"""A policy tried beside the one in service: what that means in a serve config.

Each function makes another config of one; nothing but one ``user_config`` is changed, so no replica
is started again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np

from models.networks.file import InvalidNetworkError
from models.networks.network import Network
from models.policy.file import read_weights
from models.policy.form import HIDDEN_DIM, InvalidPolicyFileError
from models.policy.inputs import InputLayout
from models.policy.step import PolicyStep
from serve_app.errors import CommandError
from serve_app.rollout.networks import network_of

Config = dict[str, Any]
UserConfig = dict[str, Any]
Mode = Literal["canary", "shadow"]

_BUILDER = "serve_app.inference:build"
_DEPLOYMENT = "Inference"
_DIGEST_BYTES = 6
_TRIED_STEPS = 4
_NOTHING = "There is no candidate; `greenwave canary start FILE` begins a trial."


def inference_of(config: Config, name: str | None) -> str:
    """Return the name of the inference application that is meant.

    Raises:
        CommandError: there is none, there are several, or none of that name.
    """
    names = [app["name"] for app in config["applications"] if app["import_path"] == _BUILDER]
    if name is None and len(names) == 1:
        return str(names[0])
    if name in names:
        return str(name)
    known = ", ".join(names) or "none"
    raise CommandError(f"Say with --app which inference application is meant; there are: {known}.")


def user_config_of(config: Config, app: str) -> UserConfig:
    """Return what the policies of an application are configured by."""
    deployments = _application(config, app).get("deployments") or []
    found = [each.get("user_config") for each in deployments if each["name"] == _DEPLOYMENT]
    return next(filter(None, found), {})


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


def started(
    config: Config, app: str, file: Path, mode: Mode, share: float, revision: str | None
) -> Config:
    """Try a file beside the policy in service, or try the candidate otherwise.

    Raises:
        CommandError: the file is no policy of this network, or another one is tried already.
    """
    now = user_config_of(config, app)
    present = now.get("candidate")
    states = _states_of(file, revision, config, app)
    if present and present["states"] != states:
        raise CommandError(
            f"{present['agent_path']} is tried already; promote or drop it before another one."
        )
    if now.get("states") == states:
        raise CommandError(
            f"{file} is the policy in service; to try it beside itself, give it a --revision."
        )
    candidate = {"agent_path": str(file.resolve()), "revision": revision, "states": states}
    return _with(config, app, now | {"candidate": candidate | {"mode": mode, "share": share}})


def _states_of(file: Path, revision: str | None, config: Config, app: str) -> str:
    try:
        network = network_of(_application(config, app))
    except InvalidNetworkError as error:
        raise CommandError(f"{error}.") from error
    return states_of(file, revision, network)


def states_of(file: Path, revision: str | None, network: Network) -> str:
    """Return a name for the hidden states of a policy, which is that of no other.

    Raises:
        CommandError: the file is no policy of this network, or one that can make no step.
    """
    try:
        weights = read_weights(file, network)
    except InvalidPolicyFileError as error:
        raise CommandError(f"{error}.") from error
    if not _makes_steps(PolicyStep(weights, network), network):
        raise CommandError(f"{file}: its weights are so large that a step is not finite.")
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for each in weights.values():
        digest.update(each.tobytes())
    return "-".join(filter(None, (digest.hexdigest(), revision)))


def _makes_steps(policy: PolicyStep, network: Network) -> bool:
    """Try a step of each junction on some observations, as a lone request is stepped."""
    layout = InputLayout(network)
    chance, hidden = np.random.default_rng(0), np.zeros((1, HIDDEN_DIM), np.float32)
    for agent in [*range(network.n_agents)] * _TRIED_STEPS:
        inputs = layout.encode([agent], [chance.random(network.max_obs, np.float32).round()])
        if not policy(inputs, hidden, network.unavailable[[agent]]).finite.all():
            return False
    return True


def shared(config: Config, app: str, share: float) -> Config:
    """Give the candidate another share of the runs.

    Raises:
        CommandError: there is no candidate, or its file is not what it was.
    """
    now = user_config_of(config, app)
    candidate = _unchanged(config, app)
    return _with(config, app, now | {"candidate": candidate | {"share": share}})


def promoted(config: Config, app: str) -> Config:
    """Put the candidate in service, which keeps its hidden states.

    Raises:
        CommandError: there is no candidate, or its file is not what it was.
    """
    candidate = _unchanged(config, app)
    kept = {key: candidate.get(key) for key in ("agent_path", "revision", "states")}
    return _with(config, app, kept)


def dropped(config: Config, app: str) -> Config:
    """End the trial.

    Raises:
        CommandError: there is no candidate.
    """
    now = user_config_of(config, app)
    _candidate(now)
    return _with(config, app, {key: value for key, value in now.items() if key != "candidate"})


def _unchanged(config: Config, app: str) -> UserConfig:
    """Refuse a file that the next replica to start would not find as the last one did."""
    candidate = _candidate(user_config_of(config, app))
    file = Path(candidate["agent_path"])
    if _states_of(file, candidate["revision"], config, app) != candidate["states"]:
        raise CommandError(f"{file} is another policy than the one on trial; drop that first.")
    return candidate


def undone_by(config: Config, present: Config) -> list[str]:
    """Return a sentence for each trial or promotion of the present release that a config ends."""
    after = {each["name"]: each for each in config["applications"]}
    sentences = []
    for name in [app["name"] for app in present["applications"] if app["import_path"] == _BUILDER]:
        before = user_config_of(present, name)
        now = user_config_of(config, name) if name in after else {}
        if before.get("candidate") and not now.get("candidate"):
            path = before["candidate"]["agent_path"]
            sentences.append(f"The trial of {path} ends: the config has no candidate.")
        if before.get("states") and before["states"] != now.get("states"):
            path = before["agent_path"]
            sentences.append(f"{path}, which was promoted, is replaced: the config has another.")
    return sentences


def _candidate(user_config: UserConfig) -> UserConfig:
    candidate: UserConfig | None = user_config.get("candidate")
    if candidate is None:
        raise CommandError(_NOTHING)
    return candidate
