"""What operators change in a whole system, well or badly; no request may fail of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx

from deployments.http.messages import RUN_HEADER
from load_tests.chaos.services.event import Event
from load_tests.chaos.services.house import House, Mishap
from load_tests.harness.shipped import Config, shipped_config, shipped_config_but
from models.networks.shipped import JUNCTIONS

ONE, ALL = Path("deployments/inference/service.py"), Path("deployments/http/errors.py")
WEIGHTS = Path("models/weights")


def _new_version_of(file: Path) -> Callable[[House], None]:
    def happen(house: House) -> None:
        house.append(file, "# another version")
        _replace(house, partial(house.deploy, shipped_config()))

    return happen


def _there_and_back(house: House) -> None:
    _replace(
        house, partial(house.deploy, shipped_config_but("inference", args={"max_waiting": 999}))
    )
    _replace(house, house.roll_back)


def _replace(house: House, change: Callable[[], None]) -> None:
    """Make a change that is to put other replicas in the place of the inference's."""
    before = house.replicas("inference")
    change()
    if not house.wait_until_whole() or any(each.is_running() for each in before):
        raise Mishap("the old version runs on")


def _new_weights(house: House) -> None:
    import torch  # two seconds that nobody waits for who asks for help alone

    shipped = torch.load(house.code / WEIGHTS / "agent.th", weights_only=True)
    path = house.code / "other.th"
    torch.save({name: 1.5 * values for name, values in shipped.items()}, path)
    before, replicas = _confidence(house), house.replicas("inference")
    house.deploy(_with_weights(path))
    if _confidence(house) == before:
        raise Mishap("the old weights serve on")
    if house.replicas("inference") != replicas:
        raise Mishap("the replicas are other ones")


def _with_weights(path: Path) -> Config:
    user_config = {"agent_path": str(path), "revision": None}
    return shipped_config_but("inference", deployment={"user_config": user_config})


def _confidence(house: House) -> float:
    """Return what the policy in service makes of the first step of a run."""
    answer = httpx.post(
        f"{house.instance.base_url}/predict_action",
        json={"junction_id": next(iter(JUNCTIONS)), "obs_data": [0.5]},
        headers={RUN_HEADER: uuid.uuid4().hex[:12]},
        timeout=10.0,
    )
    confidence: float = answer.raise_for_status().json()["confidence"]
    return confidence


def _broken_code(line: str) -> Callable[[House], None]:
    def happen(house: House) -> None:
        good = (house.code / ONE).read_bytes()
        house.append(ONE, line)
        try:
            _refuse(house, shipped_config())
        finally:
            (house.code / ONE).write_bytes(good)

    return happen


def _misfit(house: House) -> None:
    _refuse(house, _with_weights(house.code / WEIGHTS / "flow.safetensors"))


def _refuse(house: House, config: Config) -> None:
    """Deploy what is to be refused; whoever served before serves on."""
    before = house.replicas("inference")
    try:
        house.deploy(config)
    except Mishap as said:
        if "Traceback" in str(said):
            raise
    else:
        raise Mishap("it was not refused")
    if not all(each.is_running() for each in before):
        raise Mishap("the old version has ended")


CHANGES = (
    Event("code", "new code of the inference", _new_version_of(ONE), flawless=True),
    Event("all-code", "new code of everything", _new_version_of(ALL), flawless=True),
    Event(
        "rollback",
        "a new config of the inference, and the rollback",
        _there_and_back,
        flawless=True,
    ),
    Event("weights", "new weights", _new_weights, flawless=True),
    Event(
        "no-import", "new code that does not import", _broken_code("import nowhere"), flawless=True
    ),
    Event(
        "no-start",
        "new code that does not start",
        _broken_code("InferenceService = None"),
        flawless=True,
    ),
    Event("misfit", "new weights that do not fit", _misfit, flawless=True),
)
