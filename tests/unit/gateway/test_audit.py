"""What the gateway's routes leave in the audit log, and that no secret is in it."""

import pytest

from deployments.access.audit import AuditLog
from deployments.access.tokens import Tokens
from tests.unit.gateway.conftest import LIMITS, PASSWORD, SECRET
from tests.unit.gateway.test_api import ACTION, BODY, DOWN

ADDRESS = {"X-Forwarded-For": "203.0.113.9"}


@pytest.fixture
def kept(service, store):
    async def kept():
        await service.access.audit.flush()
        return await AuditLog(store).entries()

    return kept


async def test_who_logged_in_and_from_where(login, kept):
    await login("ann", PASSWORD)
    (entry,) = await kept()
    assert (entry.log, entry.event) == ("uses", "login")
    assert (entry.who, entry.where) == ("ann", "203.0.113.9")


async def test_refused_logins_are_counted_by_user_and_address(login, kept):
    for _ in range(LIMITS.per_user + 2):
        await login("ann", "a wrong password")
    wrong, locked = await kept()
    assert (wrong.event, wrong.who, wrong.where) == ("login refused", "ann", "203.0.113.9")
    assert (wrong.detail, wrong.count) == ("Invalid username or password", 3)
    assert (locked.who, locked.count) == ("ann", 2)
    assert "Too many login attempts" in locked.detail


async def test_what_is_no_name_may_be_a_password_and_is_not_kept(login, kept, store):
    await login(PASSWORD, "ann")
    (entry,) = await kept()
    assert (entry.event, entry.who) == ("login refused", "")
    for log in ("uses", "refusals"):
        values = [value async for _, value in store.scan(f"audit_{log}")]
        assert PASSWORD.encode() not in b"".join(values)


async def test_a_reset_and_whose_it_was(client, bearer, kept, inference):
    run = {"X-Simulation-Run": "monday"}
    await client.post(ACTION, json=BODY, headers=bearer)  # decisions are not kept
    await client.post("/traffic/reset", headers={**bearer, **ADDRESS, **run})
    inference.error = DOWN
    await client.post("/traffic/reset", headers={**bearer, **ADDRESS})
    done, tried = await kept()
    assert (done.event, done.detail) == ("reset", "run monday")
    assert (done.who, done.where) == ("ann", "203.0.113.9")
    assert tried.detail == "run default, not confirmed"


async def test_refused_tokens_with_their_user_where_the_signature_is_ours(
    client, tokens, kept, monkeypatch
):
    expired = Tokens(tokens.keys, 60, 5, lambda: 1_700_000_000).issue("bob")
    forged = tokens.issue("root")[:-9] + "forged000"
    narrow = tokens.issue("carol", ["act"])
    for token in (expired, forged, narrow):
        headers = {"Authorization": f"Bearer {token}", **ADDRESS}
        await client.post("/traffic/reset", headers=headers)
    await client.post("/traffic/reset")  # none was shown, none was refused
    entries = await kept()
    assert {(entry.who, entry.detail) for entry in entries} == {
        ("bob", "The token has expired"),
        ("", "The token is invalid"),
        ("carol", "The token does not have the scope 'reset'"),
    }
    assert {entry.event for entry in entries} == {"token refused"}
    for part in (*expired.split("."), *forged.split("."), SECRET.decode()):
        assert part not in str(entries)
