"""Ray's REST API as far as ``greenwave`` uses it, over HTTP."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from serve_app.ray_dashboard import RayDashboard
from tests.support.local_server import Answer, Request, json_answer, serving

Config = dict[str, Any]
Applications = dict[str, dict[str, Any]]


def runs(config: Config) -> dict[str, Any]:
    """Return what Serve reports of an application that runs."""
    return {
        "status": "RUNNING",
        "message": "",
        "route_prefix": config.get("route_prefix"),
        "deployments": {"Service": {"status": "HEALTHY", "message": "", "replicas": []}},
        "deployed_app_config": config,
    }


@dataclass
class FakeRay:
    """A cluster on which every config runs as soon as it is sent.

    Attributes:
        sent: the configs that were sent.
        report: of an application in the last config, in place of that it runs.
        refuse: returns why a config is refused, empty if it is not; may do something else, too.
        status: of every answer; 0 for none.
        nodes: as Ray lists them.
        exporters: addresses of what exports their metrics.
    """

    url: str
    sent: list[Config] = field(default_factory=list)
    report: Callable[[Config], dict[str, Any]] = runs
    refuse: Callable[[Config], str] = lambda config: ""
    status: int = 200
    nodes: list[dict[str, Any]] = field(default_factory=lambda: [node(cpus=4.0, megabytes=8000)])
    exporters: list[str] = field(default_factory=list)
    _applications: list[Config] = field(default_factory=list)

    @property
    def dashboard(self) -> RayDashboard:
        return RayDashboard(self.url)

    def serve(self, *applications: Config) -> None:
        """Report other applications than those that were sent."""
        self._applications = list(applications)

    def answer(self, request: Request) -> Answer | None:
        if self.status != 200:
            return Answer(self.status, b"two\nlines") if self.status else None
        if request.path.startswith("/api/v0/nodes"):
            return json_answer(200, {"data": {"result": {"result": self.nodes}}})
        if request.path == "/api/prometheus/sd":
            return json_answer(200, [{"targets": self.exporters}])
        if request.method == "PUT":
            config = json.loads(request.body)
            self.sent.append(config)
            if reason := self.refuse(config):
                return Answer(400, reason.encode())
            self.serve(*config["applications"])
            return json_answer(200, {})
        return json_answer(
            200, {"applications": {each["name"]: self.report(each) for each in self._applications}}
        )


def node(cpus: float, megabytes: float, state: str = "ALIVE") -> dict[str, Any]:
    """Return a node as Ray lists it."""
    return {"state": state, "resources_total": {"CPU": cpus, "memory": megabytes * (1 << 20)}}


@contextmanager
def fake_ray() -> Iterator[FakeRay]:
    """Serve the API of a cluster that has nothing deployed."""
    fakes: list[FakeRay] = []
    with serving(lambda request: fakes[0].answer(request)) as url:
        fakes.append(FakeRay(url))
        yield fakes[0]
