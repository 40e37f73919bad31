"""The Kubernetes manifest has the serve config, its sizes, confinement, and no secret."""

import re
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml

from serve_app.cli.main import main
from serve_app.kubernetes import USER
from serve_app.rollout.capacity import least, most, scales, surge
from serve_app.rollout.config import find_faults

ROOT = Path(__file__).resolve().parents[3]
CONFIG = ROOT / "configs" / "cluster.yaml"
CLUSTER_PAGE = ROOT / "docs" / "cluster.md"

Document = dict[str, Any]


@pytest.fixture(scope="module")
def printed():
    with pytest.MonkeyPatch.context() as patch:
        words: list[str] = []
        patch.setattr("sys.stdout.write", words.append)
        assert main(["cluster", "manifest", str(CONFIG)]) == 0
    return "".join(words)


@pytest.fixture(scope="module")
def documents(printed):
    return list(yaml.safe_load_all(printed))


@pytest.fixture(scope="module")
def services(documents):
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == "RayService"}


@pytest.fixture(scope="module")
def all_groups(services):
    return [group for service in services.values() for group in groups(service)]


def serve_config(service: Document) -> Document:
    config: Document = yaml.safe_load(service["spec"]["serveConfigV2"])
    return config


def groups(service: Document) -> list[Document]:
    cluster = service["spec"]["rayClusterConfig"]
    return [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]


def pod(group: Document) -> Document:
    spec: Document = group["template"]["spec"]
    return spec


def environment(group: Document) -> dict[str, Any]:
    (container,) = pod(group)["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


def test_the_serve_configs_together_are_the_one_they_are_made_from(services):
    whole = yaml.safe_load(CONFIG.read_text())
    parts = [serve_config(each) for each in services.values()]
    assert [app for part in parts for app in part["applications"]] == whole["applications"]
    for part in parts:
        assert part | {"applications": whole["applications"]} == whole
        assert list(find_faults(part)) == []


def test_hidden_states_are_never_in_two_clusters_at_once(services):
    """A second cluster beside the first would step the same states, and each have half of them."""
    inference, others = services["greenwave-inference"], services["greenwave"]
    assert [app["name"] for app in serve_config(inference)["applications"]] == ["inference"]
    assert inference["spec"]["upgradeStrategy"] == {"type": "None"}
    assert others["spec"]["upgradeStrategy"]["type"] == "NewClusterWithIncrementalUpgrade"
    assert others["spec"]["rayClusterConfig"]["enableInTreeAutoscaling"]  # it needs that
    url = "http://greenwave-inference-serve-svc:8000/predict_action"
    for service, found in ((others, url), (inference, None)):
        for group in groups(service):
            assert environment(group).get("RL_INFERENCE_SERVICE_URL") == found


def test_every_node_has_serves_variables_and_the_secrets_by_reference(services, all_groups):
    def secret(key: str, **optional: bool) -> Document:
        return {"secretKeyRef": {"name": "greenwave", "key": key, **optional}}

    config = yaml.safe_load(CONFIG.read_text())
    variables = config["controller_options"]["runtime_env"]["env_vars"]
    for group in all_groups:
        seen = environment(group)
        assert variables.items() <= seen.items()
        assert seen["STORE_URL"] == secret("store-url")
        assert seen["JWT_SECRET"] == secret("jwt-secret")
        assert seen["INFERENCE_TOKEN"] == secret("inference-token", optional=True)
        assert "JWT_KEYS_FILE" not in seen
    for service in services.values():
        cluster = service["spec"]["rayClusterConfig"]
        assert cluster["authOptions"] == {"mode": "token"}
        options = cluster["gcsFaultToleranceOptions"]
        assert options["redisAddress"] == "redis:6379"
        assert options["redisPassword"] == {"valueFrom": secret("redis-password")}
        assert "externalStorageNamespace" not in options  # two clusters would share it


def test_signing_keys_are_mounted_where_they_are_asked_for(capsys):
    assert main(["cluster", "manifest", str(CONFIG), "--signing-keys", "keys"]) == 0
    first = next(yaml.safe_load_all(capsys.readouterr().out))
    for group in groups(first):
        (container,) = pod(group)["containers"]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] != "tmp"]
        (volume,) = [each for each in pod(group)["volumes"] if each["name"] == mount["name"]]
        assert environment(group)["JWT_KEYS_FILE"] == f"{mount['mountPath']}/jwt-keys.json"
        assert mount["readOnly"] is True
        # 0o007 would be refused; the group is that of the pod
        assert volume["secret"] == {"secretName": "keys", "defaultMode": 0o440}
        assert pod(group)["securityContext"]["fsGroup"] == USER


def test_no_process_is_root_and_nothing_but_tmp_is_written_to(all_groups):
    for group in all_groups:
        assert pod(group)["securityContext"]["runAsNonRoot"]
        assert pod(group)["securityContext"]["runAsUser"] == USER
        (container,) = pod(group)["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert [each["mountPath"] for each in container["volumeMounts"]] == ["/tmp"]
    assert f"USER {USER}:{USER}" in (ROOT / "Containerfile").read_text()


def test_the_workers_have_room_for_the_least_and_the_largest_number_of_replicas(services):
    for service in services.values():
        config = serve_config(service)
        (workers,) = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        (container,) = pod(workers)["containers"]
        cpus = int(container["resources"]["limits"]["cpu"])
        needed = least(config).cpus + surge(config).cpus
        assert workers["replicas"] == workers["minReplicas"]
        assert workers["minReplicas"] >= 2
        assert workers["minReplicas"] * cpus >= needed
        assert workers["maxReplicas"] * cpus >= most(config).cpus
        for scale in scales(config):
            assert workers["minReplicas"] >= scale.nodes(scale.least)
            assert workers["maxReplicas"] >= scale.nodes(scale.most)
        assert container["resources"]["requests"] == container["resources"]["limits"]
        memory = int(container["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
        assert workers["maxReplicas"] * memory > most(config).megabytes * 1e6


def test_the_manifest_is_readable_publishes_nothing_and_has_the_installed_ray(printed, documents):
    assert "serveConfigV2: |\n" in printed
    assert "&id" not in printed
    assert {each["kind"] for each in documents} == {"RayService", "PodDisruptionBudget"}
    for document in documents:
        assert "serveService" not in document["spec"]
        if document["kind"] == "RayService":
            assert document["spec"]["rayClusterConfig"]["rayVersion"] == ray.__version__


def test_the_ingress_of_the_documentation_publishes_only_decisions_logins_and_keys():
    (example,) = re.findall(r"^```yaml\n(.*?)^```", CLUSTER_PAGE.read_text(), re.M | re.S)
    ingress = yaml.safe_load(example)
    (rule,) = ingress["spec"]["rules"]
    paths = [(each["pathType"], each["path"]) for each in rule["http"]["paths"]]
    public = ["/api/traffic/", "/api/auth/", "/api/.well-known/"]
    assert (ingress["kind"], paths) == ("Ingress", [("Prefix", path) for path in public])
    assert "defaultBackend" not in ingress["spec"]


def test_one_worker_at_a_time_may_be_evicted(documents):
    budgets = [each for each in documents if each["kind"] == "PodDisruptionBudget"]
    services = [each for each in documents if each["kind"] == "RayService"]
    for budget, service in zip(budgets, services, strict=True):
        assert budget["spec"]["maxUnavailable"] == 1
        _, workers = groups(service)
        labels = workers["template"]["metadata"]["labels"]
        assert budget["spec"]["selector"]["matchLabels"] == labels


def test_the_workers_are_as_large_as_the_largest_replica(capsys, tmp_path):
    config = yaml.safe_load(CONFIG.read_text())
    config["applications"][0]["deployments"][0]["ray_actor_options"]["num_cpus"] = 3
    path = tmp_path / "large.yaml"
    path.write_text(yaml.safe_dump(config))
    assert main(["cluster", "manifest", str(path)]) == 0
    printed = yaml.safe_load_all(capsys.readouterr().out)
    services = [each for each in printed if each["kind"] == "RayService"]
    sizes = [pod(groups(each)[1])["containers"][0]["resources"]["limits"] for each in services]
    assert [size["cpu"] for size in sizes] == ["3", "2"]
