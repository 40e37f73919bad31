"""Changed code is another version; the code of others is not."""

from typing import Any

import pytest

from load_tests.harness.shipped import shipped_config
from serve_app.rollout import code_version as module


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Make a package ``town`` of two services that share a part."""
    root = tmp_path / "town"
    files = {
        "__init__.py": "",
        "shared.py": "",
        "one/__init__.py": "",
        "one/service.py": "def f():\n    from town import shared\n",
        "one/page.html": "",
        "one/data/greenwave.json": "",
        "two.py": "import town.shared\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return root


@pytest.mark.parametrize(
    ("changed", "affected"),
    [
        ("shared.py", {"town.one.service", "town.two"}),
        ("one/service.py", {"town.one.service"}),
        ("one/page.html", {"town.one.service"}),
        ("one/data/greenwave.json", {"town.one.service"}),
        ("two.py", {"town.two"}),
        ("__init__.py", {"town.one.service", "town.two"}),
    ],
)
def test_a_change_is_a_new_version_of_what_imports_it_and_of_nothing_else(
    changed, affected, package
):
    services = ("town.one.service", "town.two")
    before = {name: module.code_version(name) for name in services}
    path = package / changed
    path.write_text(path.read_text() + "\n# changed")
    assert {name for name in services if module.code_version(name) != before[name]} == affected


@pytest.mark.parametrize("way", ["network", "plan_file", "NETWORK_PATH", "environment"])
def test_a_changed_network_or_plan_is_a_new_version_of_what_reads_it(way, tmp_path, monkeypatch):
    path = tmp_path / "file.json"
    gateway: dict[str, Any] = {"name": "gateway", "import_path": "serve_app.gateway:build"}
    loans: dict[str, Any] = {"name": "loans", "import_path": "serve_app.customers:build"}
    if way == "environment":
        monkeypatch.setenv("NETWORK_PATH", str(path))
    for application in (gateway, loans):
        if way == "NETWORK_PATH":
            application["runtime_env"] = {"env_vars": {way: str(path)}}
        elif way != "environment" and application is gateway:
            application["args"] = {way: str(path)}

    def versions(text: str) -> list[str]:
        path.write_text(text)
        stamped = module.stamp({"applications": [gateway, loans]})["applications"]
        return [each["runtime_env"]["env_vars"][module.VARIABLE] for each in stamped]

    before, after = versions("before"), versions("after")
    assert (before[0] != after[0], before[1] == after[1]) == (True, True)


def test_each_application_of_the_shipped_config_bears_its_own_version_in_an_environment_of_all():
    config = shipped_config()
    first, second = (each["runtime_env"]["env_vars"] for each in config["applications"][:2])
    assert first is second  # one anchor in the YAML
    for application in module.stamp(config)["applications"]:
        expected = module.code_version(application["import_path"].partition(":")[0])
        assert application["runtime_env"]["env_vars"] == first | {module.VARIABLE: expected}
    assert module.VARIABLE not in first
    others = {"applications": [{"name": "x", "import_path": "elsewhere:build"}]}
    assert module.stamp(others) == others
