"""The strict check of serve configs, and that the shipped ones agree with each other."""

import copy
import re
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

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


FIRST = "applications.0"
SECOND = "applications.1"
SCALING = f"{SECOND}.deployments.0.autoscaling_config"


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        ("http_optionss", {"port": 1}, "http_optionss: unknown key"),
        ("http_options.prot", 8000, "http_options.prot: unknown key"),
        (f"{FIRST}.route_prefx", "/", "route_prefx: unknown key"),
        (f"{SECOND}.route_prefix", None, "the application needs a path, such as /gateway"),
        (f"{FIRST}.args", {"shardz": 2}, "args.shardz: unknown key"),
        (f"{FIRST}.args", {"run_ttl_s": "long"}, "run_ttl_s"),
        (f"{FIRST}.import_path", "serve_app.inference:bild", "import_path"),
        (f"{FIRST}.import_path", "serve_app.settings:Settings", "not a builder"),
        (f"{FIRST}.deployments.0.name", "Inferenc", "deployment of this application is Inference"),
        (f"{FIRST}.deployments.0.ray_actor_options.num_cpu", 1, "num_cpu: unknown key"),
        (f"{FIRST}.deployments.0.user_config", {"agent_pth": "/x"}, "user_config.agent_pth"),
        (f"{SECOND}.deployments.0.user_config", {"revision": 2}, "Gateway has none"),
        (f"{SCALING}.upscale_dely_s", 3, "autoscaling_config.upscale_dely_s: unknown key"),
        (SCALING, {"min_replicas": 5, "max_replicas": 2}, "[Gateway].autoscaling_config"),
    ],
)
def test_a_mistake_is_named_with_its_place(shipped, path, value, fault):
    config = copy.deepcopy(shipped)
    *way, key = (int(each) if each.isdecimal() else each for each in path.split("."))
    reduce(getitem, way, config)[key] = value
    assert any(fault in found for found in find_faults(config))


def test_an_application_needs_a_name(shipped):
    config = copy.deepcopy(shipped)
    del config["applications"][0]["name"]
    assert list(find_faults(config)) == ["applications[0].name: the application needs a name"]


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


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not have a mapping"),
        ("- 1", "does not have a mapping"),
        ("a: [", "Cannot read it"),
        ("applications: [{name: cards, args: {}, args: {record: cards}}]", "the key 'args' twice"),
        (
            "base: &base {name: cards}\napplications: [{<<: *base, name: a, name: b}]",
            "the key 'name' twice",
        ),
    ],
)
def test_a_file_that_is_no_config_is_refused_with_a_sentence(tmp_path, text, reason):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(InvalidServeConfigError, match=rf"(?s)config\.yaml is not .*{reason}"):
        read_config(path)


def test_an_application_without_a_path_is_at_the_root_as_in_ray(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("applications: [{name: inference, import_path: 'serve_app.inference:build'}]")
    (application,) = read_config(path)["applications"]
    assert application["route_prefix"] == "/"


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
