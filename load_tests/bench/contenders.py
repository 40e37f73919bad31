"""Who is compared: the same policy, each way as its own documentation shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from load_tests.bench import start
from load_tests.bench.comparison.environment import Environment
from load_tests.bench.loads import AT_ONCE, Load, Running
from load_tests.harness.shipped import ROOT, shipped_application, shipped_config
from load_tests.peers import applications

ENVIRONMENTS = ROOT / ".venv-peers"


@dataclass(frozen=True)
class Contender:
    """One way to serve the policy.

    Attributes:
        settings: what a reader has to know beside its name.
        packages: whose versions are told.
        start: from the first of its ports to itself, running.
        environment: of its own, where it cannot share this one.
        more: loads that it alone gets.
    """

    name: str
    settings: str
    packages: tuple[str, ...]
    start: Callable[[int], AbstractContextManager[Running]]
    environment: Environment | None = None
    more: Sequence[Load] = ()

    @property
    def python(self) -> Path:
        return self.environment.python if self.environment else Path(sys.executable)


def _greenwave(strict: bool) -> Callable[[int], AbstractContextManager[Running]]:
    application = shipped_application("inference", args={"strict": True} if strict else {})
    return lambda base: start.on_serve(base, application, shipped_config())


def _no_op(base: int) -> AbstractContextManager[Running]:
    return start.on_serve(base, applications.no_op(), shipped_config())


def _default_serve(base: int) -> AbstractContextManager[Running]:
    application = applications.policy(**start.peer_environment())
    return start.on_serve(base, application, applications.without_fast_path())


def _fastapi(step: str) -> Callable[[int], AbstractContextManager[Running]]:
    words = [sys.executable, "-m", "uvicorn", "--factory", "--no-access-log", "--port", "{port}"]
    app = "load_tests.peers.fastapi_policy:create_app"
    return lambda base: start.command([*words, app], base, PEER_STEP=step)


def _environment(name: str) -> Environment:
    requirements = ROOT / "load_tests" / "peers" / name / "requirements.txt"
    return Environment(requirements, ENVIRONMENTS / name)


_LITSERVE, _BENTOML = _environment("litserve"), _environment("bentoml")


def _litserve(base: int) -> AbstractContextManager[Running]:
    words = [str(_LITSERVE.python), "-m", "load_tests.peers.litserve.server", "{port}"]
    return start.command(words, base)


def _bentoml(base: int) -> AbstractContextManager[Running]:
    bentoml = str(_BENTOML.python.with_name("bentoml"))
    service = "load_tests.peers.bentoml.server:Policy"
    words = [bentoml, "serve", service, "--host", "127.0.0.1", "--port", "{port}"]
    home = str(_BENTOML.folder / "home")
    return start.command(words, base, BENTOML_HOME=home, BENTOML_DO_NOT_TRACK="True")


_RAY = ("ray", "numpy")
_FASTAPI = ("fastapi", "pydantic", "uvicorn", "uvloop", "httptools")

CONTENDERS = {
    "greenwave": Contender(
        "Greenwave",
        "the inference application of `serve_config.yaml` on a cluster of its own, one replica,"
        " NumPy step, at Serve's own front; every guarantee about hidden states is on",
        _RAY,
        _greenwave(strict=False),
        more=AT_ONCE,
    ),
    "strict": Contender(
        "Greenwave, strict",
        "the same with `strict: true`: the state is committed before the answer",
        _RAY,
        _greenwave(strict=True),
    ),
    "fastapi": Contender(
        "FastAPI, PyTorch",
        "uvicorn, one process, eager PyTorch, states in a dict, no access log",
        (*_FASTAPI, "torch"),
        _fastapi("torch"),
    ),
    "numpy": Contender(
        "FastAPI, our NumPy step",
        "the same with the product's step in place of PyTorch",
        (*_FASTAPI, "numpy"),
        _fastapi("numpy"),
    ),
    "litserve": Contender(
        "LitServe",
        "one worker, eager PyTorch, states in a dict, `fast_queue=True`, no batching, no access"
        " log",
        ("litserve", *_FASTAPI, "torch"),
        _litserve,
        _LITSERVE,
    ),
    "bentoml": Contender(
        "BentoML",
        "one worker, `async` route, eager PyTorch, states in a dict, no access log",
        ("bentoml", "starlette", "pydantic", "uvicorn", "torch"),
        _bentoml,
        _BENTOML,
    ),
    "serve": Contender(
        "Serve, default proxy",
        "the application of FastAPI, PyTorch, as a Serve ingress, one replica; Python proxy, no"
        " throughput mode, otherwise Greenwave's options of the deployment, no access log",
        (*_RAY, "fastapi", "torch"),
        _default_serve,
    ),
    "no-op": Contender(
        "Serve, no-op",
        "a FastAPI ingress that validates the body and does nothing, on HAProxy with Greenwave's"
        " settings: the floor of the engine",
        (*_RAY, "fastapi"),
        _no_op,
    ),
}
GREENWAVE, FASTAPI, NUMPY, LITSERVE, NO_OP = (
    CONTENDERS[key].name for key in ("greenwave", "fastapi", "numpy", "litserve", "no-op")
)
