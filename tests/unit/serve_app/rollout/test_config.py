"""The strict check of serve configs, and that the shipped ones agree with each other."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deployments.customers import record_types
from serve_app.rollout.config import InvalidServeConfigError, find_faults, read_config

ROOT = Path(__file__).resolve().parents[4]
EDGE = ROOT / "configs" / "edge.cfg.tmpl"
SHIPPED = [ROOT / "serve_config.yaml", *sorted((ROOT / "configs").glob("*.yaml"))]
WHOLE = [path for path in SHIPPED if path.name != "two-cities.yaml"]


@pytest.fixture(scope="module")
def shipped():
    return read_config(ROOT / "serve_config.yaml")


@pytest.mark.parametrize(
    ("variable", "encoding"), [("json", "JSON"), ("text", "TEXT"), ("", "TEXT")]
)
def test_one_variable_makes_the_logs_json(monkeypatch, variable, encoding):
    monkeypatch.setenv("LOG_FORMAT", variable)
    config = read_config(ROOT / "serve_config.yaml")
    assert config["logging_config"] == {"encoding": encoding, "enable_access_log": False}
    assert list(find_faults(config)) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_configs_are_valid(path):
    read_config(path)


@pytest.mark.parametrize(
    ("application", "changes", "named"),
    [
        (0, {"user_config": {"agent_pth": "/x"}}, "user_config.agent_pth"),
        (0, {"user_config": {"agent_path": 5}}, "user_config.agent_path"),
        (1, {"user_config": {"revision": 2}}, "Gateway has none"),
        (0, {"name": "Inferenc"}, "the deployment of this application is Inference"),
    ],
)
def test_what_a_deployment_does_not_take_is_named(shipped, application, changes, named):
    config = copy.deepcopy(shipped)
    config["applications"][application]["deployments"][0] |= changes
    assert any(named in fault for fault in find_faults(config))


def test_variants_hold_the_same_applications_in_the_same_places():
    def places(path: Path) -> dict[str, tuple[str, str]]:
        applications = read_config(path)["applications"]
        return {each["name"]: (each["route_prefix"], each["import_path"]) for each in applications}

    assert len(WHOLE) == 3
    assert places(WHOLE[0]) == places(WHOLE[1]) == places(WHOLE[2])


OWN = {"runtime_env", "args", "num_replicas", "autoscaling_config", "ray_actor_options"}
"""What the variants are for."""
VARIABLES = {
    "cluster.yaml": {
        "RAY_SERVE_CONTROL_LOOP_INTERVAL_S",
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER",
        "RAY_SERVE_HAPROXY_TIMEOUT_CONNECT_S",
        "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S",
        "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S",
        "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE",
    },
    "two-cities.yaml": set(),
    "development.yaml": None,
}
"""The variables of Serve that a variant sets otherwise; None if it has no fast path."""


@pytest.mark.parametrize("name", VARIABLES)
def test_variants_say_the_same_as_the_default_but_for_what_they_are_for(shipped, name):
    variant = read_config(ROOT / "configs" / name)
    if (own := VARIABLES[name]) is not None:
        (one, other) = (
            each["controller_options"]["runtime_env"]["env_vars"] for each in (shipped, variant)
        )
        assert {key for key in one | other if one.get(key) != other.get(key)} == own
        assert all(each["runtime_env"]["env_vars"] == other for each in variant["applications"])
    of_default = {each["name"]: each["deployments"][0] for each in shipped["applications"]}
    for application in variant["applications"]:
        (deployment,), default = application["deployments"], of_default.get(application["name"], {})
        common = deployment.keys() & default.keys() - OWN
        assert {key: deployment[key] for key in common} == {key: default[key] for key in common}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["http_optionss"], {"port": 1}),
        (["http_options", "prot"], 8000),
        (["applications", 0, "route_prefx"], "/"),
        (["applications", 0, "deployments", 0, "max_ongoing_request"], 5),
        (["applications", 0, "deployments", 0, "max_constructor_retry_count"], 5),
        (["applications", 1, "deployments", 0, "autoscaling_config", "upscale_dely_s"], 3),
        (["applications", 0, "deployments", 0, "ray_actor_options", "num_cpu"], 1),
        (["logging_config", "enable_acces_log"], False),
    ],
    ids=lambda value: str(value[-1]) if isinstance(value, list) else "",
)
def test_an_unknown_key_is_named_with_its_place(shipped, path, value):
    config = copy.deepcopy(shipped)
    inner: Any = config
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert any(str(path[-1]) in fault and "unknown key" in fault for fault in find_faults(config))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"args": {"shardz": 2}}, "shardz"),
        ({"args": {"run_ttl_s": "long"}}, "run_ttl_s"),
        ({"import_path": "serve_app.inference:bild"}, "import_path"),
        ({"import_path": "serve_app.nowhere:build"}, "import_path"),
        ({"import_path": "serve_app.customers"}, "import_path"),
        ({"import_path": "serve_app.settings:Settings"}, "not a builder"),
    ],
)
def test_a_wrong_value_of_an_application_is_named(shipped, changes, named):
    config = copy.deepcopy(shipped)
    config["applications"][0] |= changes
    assert any(named in fault for fault in find_faults(config))


def test_a_gateway_or_console_of_another_network_than_its_inference_is_refused(shipped):
    config = copy.deepcopy(shipped)
    config["applications"][0]["args"] = {"network": "/city.json"}
    assert list(find_faults(config)) == [
        f"applications[{name}].args.network is not set, but applications[inference].args.network"
        " is /city.json: name the same file in both"
        for name in ("gateway", "console")
    ]


def test_an_application_that_is_no_function_of_args_has_none_to_check(shipped):
    config = copy.deepcopy(shipped)
    config["applications"][0] |= {"import_path": "deployments.gateway.deployment:Gateway"}
    assert list(find_faults(config)) == []


def test_wrong_autoscaling_values_are_found_before_the_cluster_finds_them(shipped):
    config = copy.deepcopy(shipped)
    scaling = config["applications"][1]["deployments"][0]["autoscaling_config"]
    scaling |= {"min_replicas": 5, "max_replicas": 2}
    assert any("autoscaling_config" in fault for fault in find_faults(config))


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "\x00"])
def test_a_file_that_is_no_config_is_refused_with_a_sentence(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InvalidServeConfigError, match=r"config\.yaml"):
        read_config(path)


@pytest.mark.parametrize(
    "text",
    [
        "applications: [{name: cards, args: {record: loans}, args: {record: cards}}]",
        '{"applications": [], "applications": []}',
        "base: &base {name: cards}\napplications: [{<<: *base, name: a, name: b}]",
    ],
)
def test_a_key_that_a_mapping_has_twice_is_refused_with_its_place(tmp_path, text):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InvalidServeConfigError, match=r"the key '(args|applications|name)' twice"):
        read_config(path)


def test_an_application_without_a_path_is_at_the_root_as_in_ray(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("applications: [{name: inference, import_path: 'serve_app.inference:build'}]")
    (application,) = read_config(path)["applications"]
    assert application["route_prefix"] == "/"


def test_an_application_needs_a_name_and_a_path(shipped):
    config = copy.deepcopy(shipped)
    del config["applications"][0]["name"]
    config["applications"][1]["route_prefix"] = None
    assert list(find_faults(config)) == [
        "applications[0].name: the application needs a name",
        "applications[gateway].route_prefix: the application needs a path, such as /gateway",
    ]


def test_a_missing_file_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(InvalidServeConfigError, match="Cannot read"):
        read_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.name)
def test_every_prefix_of_a_record_service_has_an_application_of_that_service(path):
    applications = read_config(path)["applications"]
    served = {
        (each["route_prefix"], each["args"]["record"])
        for each in applications
        if each["import_path"] == "serve_app.customers:build"
    }
    declared = {(each.base_path, name) for name, each in record_types().items()}
    declared |= {(alias, name) for name, alias in _aliases_elsewhere()}
    assert served == declared


def test_the_edge_leads_every_alias_outside_its_prefix_to_its_service():
    listeners = EDGE.read_text().split("\nfrontend ")
    found = [re.findall(r"set-path (\S+) if \{ path (\S+) \}", each) for each in listeners]
    (rules,) = [each for each in found if each]
    aliases = _aliases_elsewhere()
    assert {alias for _, alias in rules} == {alias for _, alias in aliases} != set()
    for (target, _), (name, _) in zip(rules, aliases, strict=True):
        assert target in record_types()[name].aliases
        assert target.startswith(f"{record_types()[name].base_path}/")


def _aliases_elsewhere() -> list[tuple[str, str]]:
    """Return type and alias of every alias that is not below the type's own prefix."""
    return [
        (name, alias)
        for name, record_type in record_types().items()
        for alias in record_type.aliases
        if not alias.startswith(f"{record_type.base_path}/")
    ]


def test_every_stateless_part_scales_within_bounds(shipped):
    stateless = {"gateway", "density", "flow", "accounts", "loans", "cards"}
    for application in shipped["applications"]:
        (deployment,) = application["deployments"]
        assert deployment["max_ongoing_requests"] > 0
        assert deployment["max_queued_requests"] > 0
        if application["name"] in stateless:
            scaling = yaml.safe_load(yaml.safe_dump(deployment["autoscaling_config"]))
            assert 1 <= scaling["min_replicas"] < scaling["max_replicas"]
