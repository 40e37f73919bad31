"""``greenwave audit``, and what the other commands record."""

import asyncio
import json
import stat

import pytest

from deployments.access.audit import AuditLog, Entry, Log
from deployments.store import StoreUnavailable, open_store
from tests.unit.serve_app.cli.conftest import SECRET


@pytest.fixture
def kept(data_dir):
    """Record entries at hours of 14 November 2023."""
    data_dir.mkdir()
    midnight = 1_699_920_000_000

    def entry(
        log: Log, hour: int, event: str, who: str, where: str, detail: str = "", count: int = 1
    ) -> Entry:
        at = midnight + hour * 3_600_000
        return Entry(log, at, event, who, where, detail, count, at + count * 1000)

    async def write() -> None:
        store = open_store(f"sqlite:///{data_dir}/greenwave.db")
        log = AuditLog(store)
        await log.append("uses", [entry("uses", 8, "login", "ann", "10.0.0.1")])
        refusal = entry("refusals", 9, "login refused", "", "203.0.113.9", "no", 77)
        await log.append("refusals", [refusal])
        await log.append("uses", [entry("uses", 10, "reset", "ann", "10.0.0.1", "run monday")])
        await store.close()

    asyncio.run(write())


def test_entries_are_shown_oldest_first(greenwave, kept):
    assert greenwave("audit") == (
        0,
        "2023-11-14T08:00:00Z  login  ann from 10.0.0.1\n"
        "2023-11-14T09:00:00Z  login refused  - from 203.0.113.9: no "
        "(77 times until 2023-11-14T09:01:17Z)\n"
        "2023-11-14T10:00:00Z  reset  ann from 10.0.0.1: run monday\n",
        "",
    )


def test_programs_read_entries_as_json(greenwave, kept):
    entries = json.loads(greenwave("audit", "--json", "--limit", "1").out)
    expected = {"time": "2023-11-14T10:00:00Z", "event": "reset", "detail": "run monday"}
    assert [entry | expected for entry in entries] == entries
    assert len(entries) == 1


@pytest.mark.parametrize(
    ("options", "events"),
    [
        (["--who", "ann"], ["login", "reset"]),
        (["--where", "203."], ["login refused"]),
        (["--log", "uses", "--limit", "1"], ["reset"]),
        (["--since", "2023-11-14T09:30"], ["reset"]),
        (["--since", "2023-11-14T10:30+01:00"], ["reset"]),
        (["--since", "2h"], []),
        (["--limit", "0"], []),
    ],
)
def test_filters(greenwave, kept, options, events):
    lines = greenwave("audit", *options).lines
    assert [line.split("  ")[1] for line in lines] == events


def test_an_export_is_complete_and_only_its_owner_can_read_it(greenwave, kept, tmp_path):
    path = tmp_path / "audit.jsonl"
    exported = greenwave("audit", "--limit", "1", "--who", "ann", "--export", str(path))
    assert exported == (0, "", f"Exported 2 entries to {path}.\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [json.loads(line)["event"] for line in path.read_bytes().splitlines()] == [
        "login",
        "reset",
    ]


def test_every_change_by_an_operator_is_recorded_without_secrets(greenwave, tmp_path):
    greenwave("users", "add", "ann", "act", typed="the first password\n")
    greenwave("users", "passwd", "ann", typed="the second password\n")
    greenwave("users", "scopes", "ann", "read")
    token = greenwave("tokens", "create", "controller").out.strip()
    greenwave("tokens", "revoke", "controller")
    greenwave("keys", "rotate", "--after", "0")
    greenwave("keys", "retire", greenwave("keys", "list").out.split()[0])
    greenwave("users", "remove", "ann", "--last")
    greenwave("users", "list")
    greenwave("users", "remove", "nobody")
    path = tmp_path / "audit.jsonl"
    greenwave("audit", "--export", str(path))
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


def test_a_change_that_cannot_be_recorded_is_reported(greenwave, monkeypatch):
    async def fail(*args: object) -> None:
        raise StoreUnavailable("full")

    monkeypatch.setattr(AuditLog, "append", fail)
    failed = greenwave("users", "add", "ann", typed="some password\n")
    message = "The change is made, but not in the audit log: full\n"
    assert failed == (1, "Added 'ann'.\n", message)


@pytest.mark.parametrize("since", ["yesterday", "h", "1e999d", ""])
def test_an_impossible_time_is_refused(greenwave, since):
    with pytest.raises(SystemExit):
        greenwave("audit", "--since", since)
