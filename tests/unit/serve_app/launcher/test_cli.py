"""What every command has in common: errors end in one sentence."""

from __future__ import annotations

import pytest

from serve_app.launcher import cli, deploy_cli, up_cli
from serve_app.launcher.cli import main
from serve_app.launcher.instance import Instance


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("JWT_EXPIRATION_MINUTES", "0"),
        ("LOANS_UPDATE_VALIDATION_STATUS", "abc"),
        ("ENVIRONMENT", "staging"),
    ],
)
def test_a_variable_that_is_not_valid_is_named_in_one_sentence(
    variable, value, monkeypatch, capsys, tmp_path
):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv(variable, value)
    assert main(["status"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{variable} is not valid: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("said", ["Interrupted. The release before it serves on.", ""])
def test_ctrl_c_ends_with_130_and_with_what_there_is_to_say(said, monkeypatch, capsys):
    def read(options: object) -> None:
        raise KeyboardInterrupt(*filter(None, [said]))

    monkeypatch.setattr(deploy_cli, "read", read)
    assert main(["deploy"]) == 130
    assert capsys.readouterr().err.strip() == said


def test_up_takes_one_config(capsys):
    with pytest.raises(SystemExit):
        main(["up", "one.yaml", "another.yaml"])
    assert "unrecognized arguments: another.yaml" in capsys.readouterr().err


class TestPlaceOfTheFront:
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DATA_DIR", str(tmp_path))

    def place(self, *arguments: str) -> Instance:
        parser = cli._parser()
        return up_cli.place_front(parser.parse_args(["up", "--port-base", "31000", *arguments]))

    def test_serves_front_is_behind_the_edge(self):
        instance = self.place()
        assert instance.base_url == "http://127.0.0.1:31000"
        assert instance.front_url != instance.base_url

    def test_without_an_edge_it_is_where_clients_look_for_it(self):
        assert self.place("--no-edge").front_url == "http://127.0.0.1:31000"

    def test_so_it_is_where_there_can_be_no_edge_and_why_is_said(self, monkeypatch, capsys):
        monkeypatch.setenv("RAY_SERVE_HAPROXY_BINARY_PATH", "/nowhere/haproxy")
        assert self.place().front_url == "http://127.0.0.1:31000"
        assert "there is no HAProxy here" in capsys.readouterr().out
