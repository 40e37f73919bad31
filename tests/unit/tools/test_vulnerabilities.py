"""What was not looked up is not called safe."""

import sys

import pytest

from tools import vulnerabilities
from tools.vulnerabilities import FOUND, NO_VERDICT, verdict

SAFE = {"name": "safe", "version": "1.0", "vulns": []}
KNOWN = {
    "name": "old",
    "version": "0.9",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.0"]}, {"id": "PYSEC-2", "fix_versions": []}],
}
SKIPPED = {"name": "strange", "skip_reason": "not found on PyPI"}


def test_packages_without_findings_pass():
    assert verdict({"dependencies": [SAFE, SAFE]}) == (
        0,
        ["2 packages were looked up, 0 findings."],
    )


def test_findings_are_named_with_the_version_that_has_none():
    code, lines = verdict({"dependencies": [SAFE, KNOWN, SKIPPED]})
    assert code == FOUND
    assert lines[:2] == [
        "old 0.9: PYSEC-1, fixed in 1.0",
        "old 0.9: PYSEC-2, fixed in no version",
    ]


def test_what_the_database_does_not_know_is_no_verdict():
    code, lines = verdict({"dependencies": [SAFE, *[SKIPPED] * 5]})
    assert code == NO_VERDICT
    assert lines[1].startswith("No verdict on 5 of 6 packages: the advisory database does not")
    assert lines[1].endswith("strange, strange, strange, ….")


@pytest.mark.parametrize("program", [None, "#!/bin/sh\necho no connection >&2; exit 1\n"])
def test_without_the_database_there_is_one_sentence(tmp_path, monkeypatch, capsys, program):
    if program:
        (tmp_path / "pip-audit").write_text(program)
        (tmp_path / "pip-audit").chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "argv", ["", "requirements.lock"])
    assert vulnerabilities.main() == NO_VERDICT
    printed = capsys.readouterr().out
    assert printed.startswith("No verdict: the advisory database is out of reach (")
    assert printed.count("\n") == 1
