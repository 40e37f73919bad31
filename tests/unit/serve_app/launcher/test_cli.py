"""What every command has in common: errors end in one sentence."""

from __future__ import annotations

import pytest

from serve_app.launcher.cli import main


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


def test_up_takes_one_config(capsys):
    with pytest.raises(SystemExit):
        main(["up", "one.yaml", "another.yaml"])
    assert "unrecognized arguments: another.yaml" in capsys.readouterr().err
