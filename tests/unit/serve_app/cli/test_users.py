"""``greenwave users``, and the passwords that it reads."""

import json

import pytest

from deployments.store.sqlite_worker import connect
from serve_app.cli.opened_store import with_store
from serve_app.identity.first_user import FIRST_USER, create_first_user, known_credentials
from serve_app.settings import Settings


@pytest.fixture
def users(greenwave):
    return lambda *words, typed="": greenwave("users", *words, typed=typed)


def add(users, name: str, *words: str) -> None:
    assert users("add", name, *words, typed="some password\n")[:2] == (0, f"Added '{name}'.\n")


def test_users_are_changed_and_the_last_is_removed_only_if_asked_to(users, refuse):
    add(users, "ann")
    add(users, "bob")
    assert users("list")[:2] == (0, "ann\nbob\n")
    changed = users("passwd", "ann", typed="another password\n")
    assert changed[:2] == (0, "Changed the password of 'ann'.\n")
    assert users("remove", "bob")[:2] == (0, "Removed 'bob'.\n")
    refused = refuse("users remove ann", "'ann' is the last user")
    assert refused.out == ""
    assert "with --last." in refused.err
    assert users("remove", "ann", "--last")[:2] == (0, "Removed 'ann'.\n")


def test_scopes_limit_what_a_user_may_do(users, refuse):
    add(users, "ann", "act", "read")
    assert users("list").out == "ann  act read\n"
    listed = [{"name": "ann", "scopes": ["act", "read"]}]
    assert json.loads(users("list", "--json").out) == listed
    assert users("scopes", "ann", "reset")[:2] == (0, "Changed what 'ann' may do.\n")
    assert users("list").out == "ann  reset\n"
    refuse("users scopes ann everything", "Scopes are one or more of act, reset, read.")


@pytest.mark.parametrize(
    ("words", "typed", "message"),
    [
        ("remove nobody", "", "There is no user 'nobody'."),
        ("add ann password", "short\n", "Scopes are one or more of act, reset, read."),
        ("add ann", "\udcff\udcfe" * 5, "A password is text in UTF-8."),
    ],
)
def test_mistakes_end_in_one_sentence(refuse, data_dir, words, typed, message):
    data_dir.mkdir()
    connect(data_dir / "greenwave.db").close()
    assert refuse(f"users {words}", message, typed).out == ""


@pytest.mark.parametrize(("command", "typed"), [("passwd", "another password\n"), ("remove", "")])
def test_the_first_users_password_is_deleted_when_it_changes(users, data_dir, command, typed):
    settings = Settings(data_dir=data_dir)
    first = with_store(
        settings.resolved_store_url, lambda store: create_first_user(settings, store)
    )
    add(users, "ann")
    add(users, "bob")
    users(command, "ann", typed=typed)
    assert known_credentials(settings) == first
    users(command, FIRST_USER, typed=typed)
    assert known_credentials(settings) is None


@pytest.mark.parametrize(
    "command",
    [
        *("users list", "users remove ann", "users passwd ann", "tokens list", "tokens revoke ann"),
        *("audit", "store export f", "store backup f"),
    ],
)
def test_a_missing_store_is_not_an_empty_one(refuse, data_dir, command):
    refuse(command, "There is no store at", typed="some password\n")
    assert not data_dir.exists()


@pytest.mark.parametrize("base", ["80", "65500", "many"])
def test_an_impossible_port_base_is_refused(greenwave, base, capsys):
    with pytest.raises(SystemExit):
        greenwave("status", "--port-base", base)
    assert "not a number from 1024 to 65035" in capsys.readouterr().err


def test_a_password_is_not_an_argument(users, capsys):
    with pytest.raises(SystemExit):
        users("passwd", "ann", "some password")
    assert "unrecognized arguments" in capsys.readouterr().err
