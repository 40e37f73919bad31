"""The model files that a serve config names, read before any replica reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from deployments.density.service import DensityService
from deployments.flow.service import FlowService
from deployments.gateway.options import GatewayOptions
from deployments.gateway.safety import make_guard
from deployments.inference.options import InferenceOptions
from deployments.inference.policy_model import diagnoses_of
from models.artifacts import InvalidArtifactError
from models.networks.file import InvalidNetworkError
from models.policy.form import SHIPPED_SAFE_POLICY, InvalidPolicyFileError
from models.policy.step import PolicyStep
from models.policy.training_record import read_record, record_of
from serve_app.configured_network import network_of, resolved
from serve_app.rollout.capacity import INFERENCE
from serve_app.rollout.smoke_test import GATEWAY
from serve_app.settings import Settings, variables_of

_READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "serve_app.density:build": ("DENSITY_MODEL_PATH", DensityService.read),
    "serve_app.flow:build": ("FLOW_MODEL_PATH", FlowService.read),
}


def find_file_faults(config: Mapping[str, Any], *, policies: bool = True) -> Iterator[str]:
    """Yield a sentence for each file that an application or a replica would refuse.

    A replica would keep its model, or start without one and answer 503.

    Args:
        policies: whether the files of policies count.
    """
    if policies:
        yield from find_unfit_policies(config)
    for application in config["applications"]:
        for read in _readings(application):
            try:
                read()
            except InvalidPolicyFileError as error:
                if policies:
                    yield f"Application {application['name']}: {error}."
            except (InvalidArtifactError, ValueError) as error:
                yield f"Application {application['name']}: {error}."


def find_unfit_policies(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each policy that does not fit its safety layer or the one beside it."""
    yield from _find_untrained_for_safety(config)
    yield from _find_different_observations(config)


def _find_untrained_for_safety(config: Mapping[str, Any]) -> Iterator[str]:
    applications = {each["name"]: each for each in config["applications"]}
    for name, application in applications.items():
        if application["import_path"] != GATEWAY:
            continue
        options = GatewayOptions.model_validate(application.get("args") or {})
        inference = applications.get(options.inference_app)
        if not options.safety or options.safety_policy == "any" or inference is None:
            continue
        if variables_of(application).get("RL_INFERENCE_SERVICE_URL"):
            continue  # the files of another system are not known here
        for policy in _served_policies(inference):
            if not read_record(policy).trained_behind_safety_layer:
                yield (
                    f"Application {name}: safety is true, but {policy} was not trained behind the"
                    f" safety layer: {record_of(policy).name} beside it does not record that. Name"
                    f" {SHIPPED_SAFE_POLICY}, or the best.th of python -m lab.train --safety,"
                    f" as agent_path of {options.inference_app}, or set safety_policy: any."
                )


def _find_different_observations(config: Mapping[str, Any]) -> Iterator[str]:
    for application in config["applications"]:
        if application["import_path"] != INFERENCE:
            continue
        counts = {each: read_record(each).counts for each in _served_policies(application)}
        if len(set(counts.values())) > 1:
            each = " and ".join(f"{path} {count}" for path, count in counts.items())
            yield (
                f"Application {application['name']}: its policies count different vehicles in an"
                f" observation: {each}. Controllers send the same to both: deploy such a policy for"
                " all runs at once."
            )


def _readings(application: Mapping[str, Any]) -> Iterator[Callable[[], object]]:
    """Yield a reader for each file of an application."""
    builder = application["import_path"]
    if builder == INFERENCE:
        yield partial(_check_diagnosis, application)
        for policy in _served_policies(application):
            yield partial(_read_policy, application, policy)
    elif builder == GATEWAY:
        yield partial(_check_safety, application)
    elif builder in _READERS:
        variable, read = _READERS[builder]
        user_configs = [
            each.get("user_config") or {} for each in application.get("deployments", [])
        ]
        named = [variables_of(application).get(variable)]
        named += [each.get("model_path") for each in user_configs]
        for path in filter(None, named):
            yield partial(read, Path(path))


def _served_policies(inference: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the file of the policy in service, and those of canaries."""
    args = inference.get("args") or {}
    by_default = args.get("agent_path") or variables_of(inference).get("MAPPO_AGENT_PATH")
    for deployment in inference.get("deployments") or [{}]:
        user_config = deployment.get("user_config") or {}
        named = user_config.get("agent_path") or by_default or Settings().mappo_agent_path
        yield resolved(Path(named))
        if canary := user_config.get("canary"):
            yield resolved(Path(canary["agent_path"]))


def _read_policy(application: Mapping[str, Any], path: Path) -> None:
    with suppress(InvalidNetworkError):  # reported separately
        PolicyStep.load(path, network_of(application))


def _check_diagnosis(application: Mapping[str, Any]) -> None:
    options = InferenceOptions.model_validate(application.get("args") or {})
    wanted = options.diagnose_detectors
    diagnoses_of(network_of(application, whole=wanted), wanted)


def _check_safety(application: Mapping[str, Any]) -> None:
    options = GatewayOptions.model_validate(application.get("args") or {})
    make_guard(options, network_of(application, whole=options.safety))
