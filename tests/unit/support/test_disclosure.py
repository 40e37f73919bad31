"""A secret in a log is found, in whatever form it is told; nothing else is."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.support.disclosure import Disclosure

SECRET = 'pass "word/with+all?of ä'
TOLD: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: f"Authorization: Bearer {secret}",
    "JSON": lambda secret: json.dumps({"password": secret}),
    "URL": lambda secret: f"redis://:{quote(secret, safe='')}@10.0.0.5:6379/0",
    "basic authentication": lambda secret: base64.b64encode(f"ann:{secret}".encode()).decode(),
    "base64": lambda secret: base64.b64encode(f"a{secret}b".encode()).decode(),
    "base64url": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode(),
    "hex": lambda secret: secret.encode().hex(),
}


@pytest.mark.parametrize("form", TOLD)
def test_a_secret_is_found_in_any_form(tmp_path, form):
    log = tmp_path / "deep" / "some.log"
    log.parent.mkdir()
    log.write_text(f"a line\nanother\nERROR {TOLD[form](SECRET)} end\n")
    found = Disclosure({"the password": SECRET, "the key": "k" * 32}).in_files([tmp_path])
    assert found == [f"the password in {log}:3"]


def test_a_log_without_is_clean_and_a_binary_one_is_read_as_well(tmp_path):
    (tmp_path / "clean.log").write_text("Authorization: Bearer [redacted]\nword/with+all?of\n")
    assert Disclosure({"the password": SECRET}).in_files([tmp_path]) == []
    (tmp_path / "binary").write_bytes(b"\xff\xfe\0" + SECRET.encode() + b"\0")
    assert len(Disclosure({"the password": SECRET}).in_files([tmp_path])) == 1


def test_a_secret_in_a_processs_arguments_is_found():
    secret = "told-to-everybody-0123456789"
    looked_for = Disclosure({"the token": secret})
    assert looked_for.in_arguments() == []
    command = [sys.executable, "-c", "print('up', flush=True); input()", f"--token={secret}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # before that it may still be a copy of this process
        try:
            assert looked_for.in_arguments() == [f"the token in /proc/{process.pid}/cmdline"]
        finally:
            process.kill()


def test_what_is_too_short_to_be_found_is_refused():
    with pytest.raises(ValueError, match="the key is too short"):
        Disclosure({"the key": "1234567"})
