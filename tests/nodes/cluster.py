"""A cluster of several nodes with a Redis, as configs/cluster.yaml describes it."""

import contextlib
import copy
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from load_tests.harness.redis_server import RedisServer
from load_tests.harness.shipped import ROOT, Config
from load_tests.harness.system import QUICK, list_of
from load_tests.harness.waiting import wait_until
from serve_app.processes.haproxy import front_environment
from serve_app.ray_dashboard import RayDashboard
from serve_app.rollout.deploy import deploy, wait_until_running
from serve_app.rollout.node_environment import variables
from tests.nodes.node import DASHBOARD_PORT, START_S, Node
from tests.support.network import Network

CONFIG = ROOT / "configs" / "cluster.yaml"
DEPLOY_S = 200.0
SHARDS = "/shards"


def cluster_config(*names: str) -> Config:
    """Return configs/cluster.yaml, of its applications only those with these names."""
    config: Config = yaml.safe_load(CONFIG.read_text())
    if names:
        config["applications"] = [app for app in config["applications"] if app["name"] in names]
    return copy.deepcopy(config)  # applications share an environment by an anchor in the YAML


@dataclass
class Cluster:
    """Nodes on a network; the first one is the head. Redis and the clients are on the host.

    Attributes:
        env: of ``ray start`` on every node.
    """

    network: Network
    folder: Path
    redis: RedisServer
    env: dict[str, str]
    nodes: dict[int, Node] = field(default_factory=dict)
    deployed: list[str] = field(default_factory=list)

    @property
    def head(self) -> Node:
        return self.nodes[1]

    @property
    def dashboard(self) -> RayDashboard:
        return RayDashboard(f"http://{self.head.address}:{DASHBOARD_PORT}")

    @property
    def workers(self) -> list[Node]:
        """Return the nodes that serve; the head does not."""
        return [node for node in self.nodes.values() if not node.is_head]

    def add_node(self, number: int, cpus: int = 4) -> Node:
        """Add a machine and start Ray on it."""
        folder = self.folder / f"n{number}"
        folder.mkdir()
        self.network.add_host(number)
        node = Node(self.network, number, folder, self.env, cpus)
        self.nodes[number] = node
        self.start(node)
        return node

    def remove_node(self, node: Node) -> None:
        """Remove a machine permanently."""
        node.kill()
        del self.nodes[node.number]

    def start(self, node: Node) -> None:
        """Start Ray on a machine, and return when the cluster has it."""
        node.start()
        node.wait_until_started()
        wait_until(lambda: node.number in self._numbers().values(), START_S, f"node {node.number}")

    def _numbers(self) -> dict[str, int]:
        """Return the number of each living node by its id."""
        numbers = {node.address: node.number for node in self.nodes.values()}
        nodes = [each for each in list_of(self.dashboard, "nodes") if each["state"] == "ALIVE"]
        known = [each for each in nodes if each["node_ip"] in numbers]
        return {each["node_id"]: numbers[each["node_ip"]] for each in known}

    def deploy(self, config: Config, timeout_s: float = DEPLOY_S) -> None:
        """Deploy as `serve deploy` does and wait until everything runs."""
        deploy(self.dashboard, config)
        self.deployed = [application["name"] for application in config["applications"]]
        wait_until_running(self.dashboard, self.deployed, timeout_s)

    def places(self) -> dict[str, list[int]]:
        """Return the nodes of the living replicas, by application, and of the state actors, by the
        application and ``SHARDS``."""
        numbers = self._numbers()
        places: dict[str, list[int]] = {}
        for actor in list_of(self.dashboard, "actors"):
            kind, _, rest = actor["class_name"].partition(":")
            if actor["state"] != "ALIVE" or kind not in ("ServeReplica", "StateActor"):
                continue
            if kind == "StateActor":
                name = actor["name"].removeprefix("hidden_states:").rpartition("/")[0] + SHARDS
            else:
                name = rest.partition(":")[0]
            if actor["node_id"] in numbers:
                places.setdefault(name, []).append(numbers[actor["node_id"]])
        return {name: sorted(found) for name, found in sorted(places.items())}

    def is_spread(self, *nodes: Node) -> bool:
        """Return whether every application and its state actors are on each of these nodes, and
        their fronts route there."""
        numbers = {node.number for node in nodes}
        places = self.places()
        wanted = {*self.deployed, *(name for name in places if name.endswith(SHARDS))}
        spread = all(numbers == set(places.get(name, ())) for name in wanted)
        return spread and self.is_serving(*nodes)

    def is_serving(self, *nodes: Node) -> bool:
        """Return whether the fronts of these nodes route to every application."""
        try:
            for node in nodes:
                httpx.get(f"{node.url}/-/healthz", timeout=5.0).raise_for_status()
                routes = httpx.get(f"{node.url}/-/routes", timeout=5.0).raise_for_status().json()
                if set(self.deployed) - set(routes.values()):
                    return False
        except httpx.HTTPError:
            return False
        return True


@contextlib.contextmanager
def open_cluster(n_workers: int, **env: str) -> Iterator[Cluster]:
    """Start a head that serves nothing and so many workers; remove them with all their files.

    Args:
        env: of ``ray start``, in addition.

    Raises:
        NoNetworkError: not on this machine.
    """
    network = Network()
    folder = Path(tempfile.mkdtemp(prefix=f"{network.name}-", dir="/tmp"))
    redis = RedisServer(folder / "redis", host=network.store)
    try:
        redis.start()
        cluster = Cluster(network, folder, redis, _environment(folder, redis) | env)
        cluster.add_node(1, cpus=0)
        for number in range(2, n_workers + 2):
            cluster.add_node(number)
        yield cluster
    finally:
        network.remove()
        redis.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path, redis: RedisServer) -> dict[str, str]:
    return {
        **variables(cluster_config()),
        **front_environment(),
        "STORE_URL": redis.url,
        "RAY_REDIS_ADDRESS": redis.url.removesuffix("/0"),
        "DATA_DIR": str(folder / "data"),
        "JWT_SECRET": "k" * 32,
        "JWT_AUTH_USERNAME": "operator",
        "JWT_AUTH_PASSWORD": "a password for tests",
        # A head requires a token as soon as its user has one, and other nodes do not send it.
        "RAY_AUTH_MODE": "disabled",
        **QUICK,
        # No idle workers: the machine carries several nodes.
        "RAY_prestart_worker_first_driver": "0",
    }
