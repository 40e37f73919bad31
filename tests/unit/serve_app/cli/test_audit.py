"""``greenwave audit`` as a user types it, and what the other commands leave in the log."""

from __future__ import annotations

import asyncio
import io
import json
import stat

import pytest

from deployments.access.audit import AuditLog, Entry, Log
from deployments.store import StoreUnavailable, open_store
from serve_app.cli.main import main

SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DATA_DIR", str(tmp_path))
    monkeypatch.setenv("JWT_SECRET", SECRET)
    for name in ("STORE_URL", "JWT_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str, typed: str = "") -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


@pytest.fixture
def kept(tmp_path):
    """Put a day's entries into the log; the hours are those of 14 November 2023."""
    midnight = 1_699_920_000_000

    def entry(
        log: Log, hour: int, event: str, who: str, where: str, detail: str = "", count: int = 1
    ) -> Entry:
        at = midnight + hour * 3_600_000
        return Entry(log, at, event, who, where, detail, count, at + count * 1000)

    async def write() -> None:
        store = open_store(f"sqlite:///{tmp_path}/greenwave.db")
        log = AuditLog(store)
        await log.append("uses", [entry("uses", 8, "login", "ann", "10.0.0.1")])
        refusal = entry("refusals", 9, "login refused", "", "203.0.113.9", "no", 77)
        await log.append("refusals", [refusal])
        await log.append("uses", [entry("uses", 10, "reset", "ann", "10.0.0.1", "run monday")])
        await store.close()

    asyncio.run(write())


def test_entries_are_shown_oldest_first(run, kept):
    assert run("audit") == (
        0,
        "2023-11-14T08:00:00Z  login  ann from 10.0.0.1\n"
        "2023-11-14T09:00:00Z  login refused  - from 203.0.113.9: no "
        "(77 times until 2023-11-14T09:01:17Z)\n"
        "2023-11-14T10:00:00Z  reset  ann from 10.0.0.1: run monday\n",
    )


@pytest.mark.parametrize(
    ("options", "events"),
    [
        (["--event", "reset"], ["reset"]),
        (["--who", "ann"], ["login", "reset"]),
        (["--where", "203."], ["login refused"]),
        (["--log", "uses", "--limit", "1"], ["reset"]),
        (["--since", "2023-11-14T09:30"], ["reset"]),
        (["--since", "2023-11-14T10:30+01:00"], ["reset"]),
        (["--since", "2h"], []),
        (["--limit", "0"], []),
    ],
)
def test_filters(run, kept, options, events):
    lines = run("audit", *options)[1].splitlines()
    assert [line.split("  ")[1] for line in lines] == events


def test_an_export_is_whole_and_for_its_owner_alone(run, kept, tmp_path):
    path = tmp_path / "audit.jsonl"
    code, told = run("audit", "--limit", "1", "--who", "ann", "--export", str(path))
    assert (code, told) == (0, f"Exported 2 entries to {path}.\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [json.loads(line)["event"] for line in path.read_bytes().splitlines()] == [
        "login",
        "reset",
    ]


def test_every_change_by_an_operator_is_noted_without_a_secret(run, tmp_path):
    run("users", "add", "ann", "act", typed="the first password\n")
    run("users", "passwd", "ann", typed="the second password\n")
    run("users", "scopes", "ann", "read")
    token = run("tokens", "create", "controller")[1].splitlines()[0]
    run("tokens", "revoke", "controller")
    run("keys", "rotate", "--after", "0")
    run("keys", "retire", run("keys", "list")[1].split()[0])
    run("users", "remove", "ann")
    run("users", "list")
    run("users", "remove", "nobody")
    path = tmp_path / "audit.jsonl"
    run("audit", "--export", str(path))
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["event"], each["detail"].split(":")[0].split()[0]) for each in entries][:3] == [
        ("user added", "ann"),
        ("user got another password", "ann"),
        ("user got other scopes", "ann"),
    ]
    assert [each["event"] for each in entries[3:]] == [
        "token made",
        "token revoked",
        "key made",
        "key retired",
        "user removed",
    ]
    assert all(each["who"].startswith("operator") and each["where"] for each in entries)
    for secret in ("first password", "second password", SECRET, token.split(".")[2]):
        assert secret not in path.read_text()


def test_a_change_that_could_not_be_noted_says_so(run, monkeypatch):
    async def fail(*args: object) -> None:
        raise StoreUnavailable("full")

    monkeypatch.setattr(AuditLog, "append", fail)
    code, told = run("users", "add", "ann", typed="some password\n")
    assert code == 1
    assert told == "Added 'ann'.\nIt was changed, but the audit log does not say so: full\n"


def test_a_store_that_is_not_there_is_no_empty_log(run):
    code, told = run("audit")
    assert (code, told.startswith("There is no store at")) == (1, True)


@pytest.mark.parametrize("since", ["yesterday", "h", "1e999d", ""])
def test_an_impossible_time_is_refused(run, since):
    with pytest.raises(SystemExit):
        run("audit", "--since", since)
