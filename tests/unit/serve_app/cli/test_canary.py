"""``greenwave canary``: its arguments, what it deploys and prints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from load_tests.harness.shipped import shipped_config
from serve_app.cli import canary as canary_command
from serve_app.cli.main import main
from serve_app.processes.installation import instance_of, releases_of
from serve_app.rollout import canary, rollout
from serve_app.rollout.releases import Releases
from tests.reference import random_state_dict


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Let a cluster take every config; return those."""
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    deployed: list[dict[str, Any]] = []
    monkeypatch.setattr(canary_command, "running", lambda options: instance_of(options.port_base))
    monkeypatch.setattr(canary_command, "print_problems", lambda instance, config: None)
    monkeypatch.setattr(canary_command, "scrape_nodes", lambda metrics_port, ray_dir, report: [])
    monkeypatch.setattr(rollout, "deploy", lambda dashboard, config: deployed.append(config))
    monkeypatch.setattr(rollout, "wait_until_running", lambda *how: None)
    monkeypatch.setattr(rollout, "serves", lambda dashboard, config: True)
    return deployed


@pytest.fixture
def releases(sent: list[dict[str, Any]]) -> Releases:
    releases = releases_of(instance_of(None))
    releases.add(releases.stage(shipped_config()))
    return releases


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "new.th"
    torch.save(random_state_dict(), path)
    return str(path)


def candidate(config: dict[str, Any] | None) -> dict[str, Any]:
    assert config is not None
    found: dict[str, Any] = canary.user_config_of(config, "inference")["candidate"]
    return found


def test_each_change_is_a_release_that_can_be_rolled_back(releases, sent, file, capsys):
    assert main(["canary", "start", file]) == 0
    assert candidate(releases.current())["share"] == 0.1
    assert main(["canary", "share", "25%"]) == 0
    assert candidate(releases.current())["share"] == 0.25
    assert candidate(releases.previous())["share"] == 0.1
    assert sent[-1] == releases.current()
    said = capsys.readouterr().out
    assert f"the policy of MAPPO_AGENT_PATH is in service, and {file} answers 25% of the runs" in (
        " ".join(said.split())
    )
    assert main(["canary", "promote"]) == 0
    said = capsys.readouterr().out
    assert f"{file} answers every run" in said
    assert f"agent_path: {file}" in said, "what the config file must say from now on"
    assert main(["canary", "drop"]) == 1


def test_the_code_of_a_release_stays_what_it_is(releases, file):
    """A canary restarts nothing, even if the code on the disk is newer than what runs."""
    before = releases.current()["applications"]
    assert main(["canary", "start", file, "--shadow"]) == 0
    now = releases.current()["applications"]
    assert [each.get("runtime_env") for each in now] == [each.get("runtime_env") for each in before]
    assert candidate(releases.current()) | {"mode": "shadow", "share": 1.0} == candidate(
        releases.current()
    )


@pytest.mark.parametrize("share", ["101%", "10", "-1%", "much", "0.5"])
def test_a_share_is_said_in_percent(releases, sent, file, share, capsys):
    with pytest.raises(SystemExit):
        main(["canary", "start", file, f"--share={share}"])
    assert "is not a share from 0% to 100%, such as 10%" in capsys.readouterr().err
    assert sent == []


@pytest.mark.parametrize(("said", "share"), [("0%", 0), ("2.5 %", 0.025), ("100%", 1)])
def test_shares(said, share):
    assert canary_command.read_share(said) == pytest.approx(share)


def test_a_revision_is_a_name(releases, file, capsys):
    with pytest.raises(SystemExit):
        main(["canary", "start", file, "--revision", "a/b"])
    assert "'a/b' is not 1 to 40 of" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["promote"], ["drop"], ["share", "5%"]])
def test_without_a_candidate_nothing_is_deployed(releases, sent, words, capsys):
    assert main(["canary", *words]) == 1
    assert capsys.readouterr().err.startswith("There is no canary")
    assert sent == []


def test_without_a_release_there_is_nothing_to_change(sent, file, capsys):
    assert main(["canary", "start", file]) == 1
    assert capsys.readouterr().err.strip() == "Nothing is deployed yet."
    assert main(["canary", "status"]) == 1


def test_the_status_names_both_policies(releases, file, capsys):
    main(["canary", "start", file, "--share", "40%"])
    capsys.readouterr()
    assert main(["canary", "status"]) == 0
    said = capsys.readouterr().out
    assert f"{file} answers 40% of the runs" in said
    assert "decisions" in said
