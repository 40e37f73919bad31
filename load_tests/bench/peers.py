"""Compares Greenwave with what a user would pick instead to serve the same policy.

In each round, every contender in turn is started, warmed up, loaded with the same requests, and
stopped: one at a time, so that CPU time is its own. All its processes count (of a Ray
cluster: every one, HAProxy included), and neither wrk nor this program.

    make bench ARGS="--rounds 5"
    make bench ARGS="--only greenwave,fastapi,no-op --rounds 1"
"""

from __future__ import annotations

import argparse
import functools
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load_tests.bench.harness import (
    ONE,
    SIXTEEN,
    SIXTY_FOUR,
    Benchmark,
    BenchmarkError,
    Load,
    Server,
    Target,
    console,
    measure,
    measure_into,
    rounds,
    serve,
    wait_until_answered,
)
from load_tests.bench.report import Column, Results, load_tables
from load_tests.harness.processes import cpu_seconds
from load_tests.harness.shipped import ROOT, Config, shipped_application, shipped_config
from load_tests.harness.system import running_system
from load_tests.harness.wrk import WrkError
from serve_app.errors import CommandError
from serve_app.settings import Settings

WARM_UP_S = 5.0
REST_CORES, REST_S, LOOK_S = 0.4, 20.0, 2.0
PREDICTION = {"junction_id": "300839359", "obs_data": [1, 0, 1, 0.2, 0.0, 0.4, 0.1, 0.0]}
ERRORS = (BenchmarkError, WrkError, CommandError)

PLAIN = (ONE, SIXTEEN, SIXTY_FOUR)
# The items of one request belong to one run, so a hundred are twenty steps of its five junctions.
AT_ONCE: Mapping[str, tuple[int, str, tuple[str, ...]]] = {
    "one a request": (1, "/predict_action", ("predict", "runs=200")),
    "5 a request": (5, "/predict_actions", ("predict_many", "runs=200")),
    "100 a request": (100, "/predict_actions", ("predict_many", "runs=200", "steps=20")),
    "1 in binary": (1, "/v2/models/policy/infer", ("infer", "rows=1")),
    "100 in binary": (100, "/v2/models/policy/infer", ("infer", "rows=100")),
    "512 in binary": (512, "/v2/models/policy/infer", ("infer", "rows=512")),
}


def make_environment(folder: Path) -> None:
    """Make the virtual environment of a peer, and install the packages of its file that it lacks.

    Raises:
        BenchmarkError: no package index is in reach, or it does not have a package.
    """
    requirements = Path(__file__).parent / "peer_servers" / f"{folder.name}.txt"
    console.print(f"Installing {requirements.name} (at first a few minutes) ...")
    install = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "-r"]
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), *install, str(requirements)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise BenchmarkError(
                f"Cannot install {requirements.name} into {folder}:"
                f" {''.join(last) or 'no reason given'}"
            )


@dataclass(frozen=True)
class Contender:
    """One way to serve the policy.

    Attributes:
        settings: what a reader must know beside its name.
        start: from the first of its ports, and whether to use an edge, to the running server.
        environment: the folder of a virtual environment, if the peer cannot share this one.
    """

    name: str
    settings: str
    start: Callable[[int, bool], AbstractContextManager[Server]]
    environment: Path | None = None


@contextmanager
def _on_serve(
    application: dict[str, Any], config: Config | None, base: int, edge: bool
) -> Iterator[Server]:
    with running_system(application, port_base=base, config=config, edge=edge) as system:
        yield Server(system.url, system.instance.processes)


def _greenwave(**args: object) -> Callable[[int, bool], AbstractContextManager[Server]]:
    return functools.partial(_on_serve, shipped_application("inference", args=args), None)


def _peer_on_serve(name: str, deployment: str, **env: str) -> dict[str, Any]:
    """Return a peer as an application with the deployment options of the shipped inference."""
    (shipped,) = shipped_application("inference")["deployments"]
    options = {key: shipped[key] for key in shipped if key not in ("name", "user_config")}
    return {
        "name": name,
        "route_prefix": "/",
        "import_path": f"load_tests.bench.peer_servers.serve_applications:{name}",
        "runtime_env": {"env_vars": env},
        "deployments": [{"name": deployment, **options}],
    }


def _no_op(base: int, edge: bool) -> AbstractContextManager[Server]:
    env = shipped_application("inference")["runtime_env"]["env_vars"]
    return _on_serve(_peer_on_serve("no_op", "NoOp", **env), None, base, edge=False)


def _default_serve(base: int, edge: bool) -> AbstractContextManager[Server]:
    config = shipped_config()
    del config["controller_options"]  # Serve's own Python proxy instead of HAProxy
    policy = _peer_on_serve("policy", "Policy", **_peer_env())
    return _on_serve(policy, config, base, edge=False)


def _command(*words: str, **env: str) -> Callable[[int, bool], AbstractContextManager[Server]]:
    return lambda base, edge: serve(words, base, **_peer_env(), **env)


def _peer_env() -> dict[str, str]:
    weights = str(Settings().mappo_agent_path.resolve())
    return {"MAPPO_AGENT_PATH": weights, "OMP_NUM_THREADS": "1"}


_ENVIRONMENTS = ROOT / ".venv-peers"
_LITSERVE, _BENTOML = _ENVIRONMENTS / "litserve", _ENVIRONMENTS / "bentoml"

CONTENDERS = {
    "greenwave": Contender(
        "Greenwave",
        "the inference application of `serve_config.yaml` on its own cluster, one replica, NumPy"
        " step; every guarantee about hidden states is on",
        _greenwave(),
    ),
    "durable": Contender(
        "Greenwave, durable",
        "the same with `durability: durable`: the state is in SQLite before the response",
        _greenwave(durability="durable"),
    ),
    "fastapi": Contender(
        "FastAPI, PyTorch",
        "uvicorn, one process, eager PyTorch, states in a dict, no access log",
        _command(
            *(sys.executable, "-m", "uvicorn", "--factory", "--no-access-log"),
            *("--log-level", "warning", "--port", "{port}"),
            "load_tests.bench.peer_servers.fastapi_server:policy_app",
        ),
    ),
    "litserve": Contender(
        "LitServe",
        "one worker, eager PyTorch, states in a dict, `fast_queue=True`, no access log",
        _command(
            *(str(_LITSERVE / "bin" / "python"), "-m"),
            "load_tests.bench.peer_servers.litserve_server",
            "{port}",
        ),
        _LITSERVE,
    ),
    "bentoml": Contender(
        "BentoML",
        "one worker, `async` route, eager PyTorch, states in a dict, no access log",
        _command(
            *(str(_BENTOML / "bin" / "bentoml"), "serve"),
            "load_tests.bench.peer_servers.bentoml_server:Policy",
            *("--host", "127.0.0.1", "--port", "{port}"),
            BENTOML_HOME=str(_BENTOML / "home"),
            BENTOML_DO_NOT_TRACK="True",
        ),
        _BENTOML,
    ),
    "serve": Contender(
        "Serve, default proxy",
        "the application of FastAPI, PyTorch, as a Serve ingress, one replica; Python proxy, no"
        " throughput mode, otherwise Greenwave's options of the deployment, no access log",
        _default_serve,
    ),
    "no-op": Contender(
        "Serve, no-op",
        "a FastAPI ingress that validates the body and does nothing, on HAProxy with Greenwave's"
        " settings: the floor of the engine",
        _no_op,
    ),
}


def _measure(options: argparse.Namespace, results: Results) -> None:
    contenders = [CONTENDERS[key] for key in options.only if key in CONTENDERS]
    for number in rounds(options):
        for contender in tuple(contenders):
            console.print(contender.name)
            try:
                _take_turn(contender, options, results)
            except ERRORS as error:
                results.failures.append(
                    f"{contender.name} is left out from round {number}: {error}"
                )
                contenders.remove(contender)


def _take_turn(contender: Contender, options: argparse.Namespace, results: Results) -> None:
    """Start a contender, measure it, and stop it."""
    if contender.environment:
        make_environment(contender.environment)
    with contender.start(options.port_base, options.edge) as server:
        wait_until_answered(server, "/predict_action", PREDICTION)
        _wait_until_at_rest(server)
        target = Target(
            contender.name, f"{server.url}/predict_action", ("predict",), server.processes
        )
        measure(target, SIXTEEN, WARM_UP_S)
        for load in PLAIN:
            measure_into(results, target, load, options.seconds)
        calls = AT_ONCE if contender is CONTENDERS["greenwave"] else {}
        for name, (predictions, path, requests) in calls.items():
            url, found = server.url + path, server.processes
            target = Target(contender.name, url, requests, found, (), predictions)
            measure(target, SIXTEEN, 1.0)  # makes the states of all runs
            measure_into(results, target, Load(name, SIXTEEN.connections), options.seconds)


def _wait_until_at_rest(server: Server) -> None:
    """Wait for what still starts after the first answer, as a Ray cluster does."""
    deadline, cores = time.monotonic() + REST_S, math.inf
    while cores > REST_CORES and time.monotonic() < deadline:
        before = cpu_seconds(server.processes())
        time.sleep(LOOK_S)
        cores = (cpu_seconds(server.processes()) - before) / LOOK_S


def _settings(results: Results) -> str:
    return "\n".join(
        f"- **{each.name}**: {each.settings}."
        for each in CONTENDERS.values()
        if each.name in results.subjects
    )


_at_once = [
    column
    for name in AT_ONCE
    for column in (
        Column(f"predictions/s, {name}", "per_s", name),
        Column(f"p50 ms, {name}", "p50_ms", name, 2),
    )
]
BENCHMARK = Benchmark(
    parts=list(CONTENDERS),
    measure=_measure,
    tables=[*load_tables([load.name for load in PLAIN]), _at_once],
    notes=_settings,
    rounds=3,
)
