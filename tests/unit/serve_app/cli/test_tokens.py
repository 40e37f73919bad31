"""``greenwave tokens`` as a user types it."""

from __future__ import annotations

import re
import time

import pytest

from deployments.access.tokens import Tokens
from serve_app.cli.main import main
from serve_app.identity.key_ring import ConfiguredKeys
from serve_app.settings import Settings


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JWT_SECRET", "0123456789abcdef0123456789abcdef")
    for name in ("STORE_URL", "JWT_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_token_is_made_listed_and_revoked(run):
    code, token, told = run("tokens", "create", "controller", "act", "read", "--days", "30")
    assert (code, told.startswith("Made the token ")) == (0, True)
    verified = Tokens(ConfiguredKeys(Settings())(), 60, 5).verify(token.strip())
    assert verified.subject == "service:controller"
    assert verified.scopes == {"act", "read"}
    assert 29 * 86_400 < verified.expires_at - time.time() <= 30 * 86_400
    listed = run("tokens", "list")[1]
    assert re.fullmatch(r"\S+  controller  act read  20\S+ to 20\S+  counts\n", listed)
    assert token.strip() not in listed + told
    assert run("tokens", "revoke", str(verified.token_id)) == (0, "Revoked 1 token.\n", "")
    assert re.search(r"  revoked 20\S+\n", run("tokens", "list")[1])


def test_a_rotation_leaves_the_old_key_until_the_last_controllers_token_ends(run):
    token = run("tokens", "create", "controller", "--days", "365")[1].strip()
    run("keys", "rotate", "--after", "0")
    later = Tokens(ConfiguredKeys(Settings())(), 60, 5, lambda: time.time() + 364 * 86_400)
    assert later.verify(token).subject == "service:controller"
    run("tokens", "revoke", "controller")
    run("keys", "rotate", "--after", "0")
    old = run("keys", "list")[1].splitlines()[0]
    assert "verifies until" in old


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "a", "everything"), "Scopes are one or more of act, reset, read.\n"),
        (("create", "a", "--days", "0"), "A token lives 1 to 3650 days.\n"),
        (("revoke", "nobody"), "There is no store at"),
    ],
)
def test_mistakes_end_in_one_sentence(run, arguments, message):
    code, output, told = run("tokens", *arguments)
    assert (code, output) == (1, "")
    assert told.startswith(message)
