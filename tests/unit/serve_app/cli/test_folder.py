"""The current folder: which config counts, what ``.env`` sets, and what ``init`` writes."""

import os
import stat

import pytest
from dotenv import dotenv_values

from lab.train.untrained import save_untrained
from models.networks.network import read_network
from models.policy.form import SHIPPED_POLICY
from serve_app.cli.folder import apply_environment
from serve_app.cli.main import main
from serve_app.errors import ROOT, CommandError
from serve_app.rollout.config import read_config
from serve_app.settings import Settings


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_init_writes_a_valid_config_and_an_env_file_for_secrets_without_any_setting(folder, capsys):
    assert main(["init"]) == 0
    assert main(["check"]) == 0
    assert "serve_config.yaml: valid" in capsys.readouterr().out
    assert dotenv_values(".env") == {}
    text = (folder / ".env").read_text()
    assert all(f"\n# {name.upper()}=\n" in text for name in Settings.model_fields)
    assert stat.S_IMODE((folder / ".env").stat().st_mode) == 0o600


def test_init_of_a_city_names_its_network_once_for_all_services(folder, refuse):
    town = folder / "town" / "town.json"
    town.parent.mkdir()
    town.write_bytes((ROOT / "configs" / "harbour.json").read_bytes())
    save_untrained(folder / "agent.th", read_network(town))
    assert main(["init", "--network", "town/town.json", "--policy", "agent.th"]) == 0
    config = folder / "town" / "town.yaml"
    assert config.read_text().count("town.json") == 1
    args = {each["name"]: each["args"] for each in read_config(config)["applications"]}
    assert (folder / "agent.th").samefile(args["inference-town"]["agent_path"])
    assert args["gateway"]["inference_app"] == "inference-town"
    for service in ("inference-town", "gateway", "console"):
        assert args[service]["network"] == str(town)
    refuse("init --network none.json", "none.json: No such file")


def test_init_of_a_city_refuses_a_policy_of_another_and_another_file_in_its_place(folder, refuse):
    town = folder / "town.json"
    town.write_bytes((ROOT / "configs" / "harbour.json").read_bytes())
    refuse(f"init --network town.json --policy {SHIPPED_POLICY}", "fc1.weight has shape")
    save_untrained(folder / "agent.th", read_network(town))
    (folder / "town.yaml").write_text("applications: []\n")
    refuse(
        "init --network town.json --policy agent.th",
        "town.yaml is there already with other content",
    )
    assert (folder / "town.yaml").read_text() == "applications: []\n"


def test_init_leaves_files_as_they_are(folder, capsys):
    (folder / ".env").write_text("LOG_FORMAT=json\n")
    assert main(["init"]) == 0
    assert ".env is there already" in capsys.readouterr().err
    assert (folder / ".env").read_text() == "LOG_FORMAT=json\n"


def test_env_file_sets_what_the_environment_does_not_with_absolute_paths(folder, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("LOG_FORMAT", "text")
    (folder / "agent.th").touch()
    lines = ["DATA_DIR=~/data", "MAPPO_AGENT_PATH=agent.th", "STORE_URL=sqlite:///town.db"]
    lines += ["LOG_FORMAT=json", "ENVIRONMENT=production", "JWT_SECRET=a$b"]
    lines.append("FLOW_MODEL_PATH=models/weights/flow.safetensors")
    (folder / ".env").write_text("\n".join(lines))
    apply_environment()
    names = ("LOG_FORMAT", "ENVIRONMENT", "JWT_SECRET")
    assert [os.environ[name] for name in names] == ["text", "production", "a$b"]
    assert os.environ["DATA_DIR"] == "/home/ann/data"
    assert os.environ["MAPPO_AGENT_PATH"] == str(folder / "agent.th")
    assert os.environ["STORE_URL"] == f"sqlite:///{folder}/town.db"
    assert os.environ["FLOW_MODEL_PATH"] == str(ROOT / "models/weights/flow.safetensors")


def test_names_of_other_programs_are_left_out_and_similar_ones_reported(folder, capsys):
    (folder / ".env").write_text("DJANGO_DEBUG=1\nSTORE_URI=redis://store\n")
    apply_environment()
    assert not {"DJANGO_DEBUG", "STORE_URI"} & os.environ.keys()
    expected = ".env: STORE_URI is not a setting, and is ignored. Is it STORE_URL?\n"
    assert capsys.readouterr().err == expected


def test_an_env_file_that_is_no_text_is_one_sentence(folder):
    (folder / ".env").write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match=r"Cannot read \.env"):
        apply_environment()


def test_a_config_names_files_beside_it_and_files_that_are_shipped(folder):
    shipped = (ROOT / "configs" / "two-cities.yaml").read_text()
    (folder / "town.json").write_text((ROOT / "configs" / "harbour.json").read_text())
    (folder / "one.yaml").write_text(shipped)
    gateway = "import_path: serve_app.gateway:build\n    runtime_env: *fast_path\n    args: {"
    assert gateway in shipped
    town = shipped.replace("configs/harbour.json", "town.json")
    (folder / "other.yaml").write_text(town.replace(gateway, gateway + "plan_file: plan.json, "))
    named = [
        {path for application in read["applications"] for path in application["args"].values()}
        for read in (read_config(folder / "one.yaml"), read_config(folder / "other.yaml"))
    ]
    assert "configs/harbour.json" in named[0]
    assert {str(folder / "town.json"), str(folder / "plan.json")} <= named[1]
