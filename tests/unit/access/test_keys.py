"""Which key signs, which verify, and what a file of keys must be."""

import asyncio
import json

import jwt
import pytest

from deployments.access.audit import AuditBuffer, AuditLog
from deployments.access.control import AccessControl
from deployments.access.keys import (
    ALGORITHMS,
    MAX_KEYS,
    InvalidKeysError,
    Key,
    Keys,
    key_of_secret,
    new_key,
    new_name,
    public_jwk,
    read_keys,
    write_keys,
)
from deployments.access.tokens import Tokens
from deployments.http.errors import UnauthorizedError
from tests.support.virtual_time import Clock, virtual_time
from tests.unit.access.conftest import NOW, SECRET, forge


def make(keys: Keys, clock: Clock) -> Tokens:
    return Tokens(keys, lifetime_s=3600, clock_skew_s=5, clock=clock)


def kid_of(token: str) -> str:
    return str(jwt.get_unverified_header(token)["kid"])


def rotation() -> tuple[Key, Key]:
    """Return a key and the one that signs from a minute after now on."""
    old = key_of_secret(SECRET)
    new = new_key("HS256", NOW + 60)
    ending = Key(old.kid, "HS256", SECRET, SECRET, verifies_until=NOW + 60 + 3600 + 60)
    return ending, new


def test_the_new_key_signs_from_its_time_on_and_nobody_has_to_log_in_again(clock):
    old, new = rotation()
    before, after = make(Keys([key_of_secret(SECRET)]), clock), make(Keys([old, new]), clock)
    earlier = before.issue("ann")
    assert before.verify(after.issue("ann")).subject == "ann", "the file is read there later"
    assert after.verify(earlier).subject == "ann"
    assert kid_of(after.issue("ann")) == old.kid
    clock.now += 60
    assert kid_of(after.issue("ann")) == new.kid
    assert after.verify(earlier).subject == "ann"


@pytest.mark.parametrize("seen_before", [True, False])
def test_the_old_key_verifies_until_its_tokens_have_ended_and_no_longer(clock, seen_before):
    old, new = rotation()
    tokens = make(Keys([old, new]), clock)
    clock.now += 59
    last = tokens.issue("ann")
    eternal = forge(exp=NOW + 1e9)
    if seen_before:
        tokens.verify(eternal)
    clock.now += 3600
    assert tokens.verify(last).subject == "ann"
    clock.now = old.verifies_until + 5
    with pytest.raises(UnauthorizedError, match="expired"):
        tokens.verify(eternal)


@virtual_time
async def test_tokens_follow_the_keys(store):
    read = [Keys.of_secret(SECRET)]
    tokens = Tokens(read[0], 60, 5)
    audit = AuditBuffer(AuditLog(store.as_store()))
    await AccessControl(tokens, lambda: read[0], audit).start()
    token = tokens.issue("ann")
    read[0] = Keys([key_of_secret(SECRET), new_key("HS256", 0)])
    while tokens.keys is not read[0]:
        await asyncio.sleep(0.1)
    assert tokens.verify(token).subject == "ann"


def test_a_token_without_a_kid_may_be_of_any_shared_secret_and_of_nothing_else(clock):
    eddsa = new_key("EdDSA", NOW)
    tokens = make(Keys([key_of_secret(SECRET), new_key("HS256", NOW), eddsa]), clock)
    assert tokens.verify(forge()).subject == "ann"
    with pytest.raises(UnauthorizedError):
        tokens.verify(forge(eddsa.material, "EdDSA"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_keys_that_were_written_verify_what_was_signed_before(clock, algorithm):
    key = new_key(algorithm, NOW)
    token = make(Keys([key]), clock).issue("ann")
    again = read_keys(write_keys([key, new_key("HS256", NOW + 9)]))
    assert make(again, clock).verify(token).subject == "ann"
    assert [each.signs_from for each in again] == [NOW, NOW + 9]


def test_a_key_does_not_show_itself():
    assert "abcdef" not in repr(key_of_secret(SECRET))
    assert SECRET.decode() not in key_of_secret(SECRET).kid


GOOD = {"kty": "oct", "kid": "a", "alg": "HS256", "k": "QUJD" * 12}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a JWK Set"),
        (b"[]", "not a JWK Set"),
        (b'{"keys": 7}', "not a JWK Set"),
        (b"[" * 99_999, "not a JWK Set"),
        ({"keys": []}, "there are 0 keys"),
        ({"keys": [GOOD, GOOD]}, "two keys"),
        ({"keys": [{**GOOD, "kid": str(n)} for n in range(MAX_KEYS + 1)]}, "there are 33 keys"),
        ({"keys": ["key"]}, "key 1: it is not a JSON object"),
        ({"keys": [{**GOOD, "kid": 7}]}, "'kid'"),
        ({"keys": [{**GOOD, "alg": "none"}]}, "'alg'"),
        ({"keys": [{**GOOD, "alg": "HS512"}]}, "'alg'"),
        ({"keys": [{**GOOD, "alg": "RS256"}]}, "no private key for RS256"),
        ({"keys": [{**GOOD, "k": "c2VjcmV0"}]}, "it has 6 bytes; HS256 needs at least 32"),
        ({"keys": [{**GOOD, "signs_from": "now"}]}, "seconds since"),
        ({"keys": [{**GOOD, "verifies_until": float("nan")}]}, "seconds since"),
    ],
)
def test_what_cannot_be_used_is_refused_without_a_word_of_the_secret(content, why):
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    with pytest.raises(InvalidKeysError, match=why) as refusal:
        read_keys(raw)
    assert "QUJD" not in str(refusal.value)


@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA"])
def test_a_public_key_cannot_sign(algorithm):
    with pytest.raises(InvalidKeysError, match="no private key"):
        read_keys(json.dumps({"keys": [public_jwk(new_key(algorithm, NOW))]}).encode())


def test_without_a_key_that_signs_nothing_is_issued(clock):
    tokens = make(Keys([new_key("HS256", NOW + 60)]), clock)
    with pytest.raises(InvalidKeysError, match="no key signs"):
        tokens.check()


def test_no_name_is_an_option_of_a_command_line():
    assert not any(key_of_secret(b"%032d" % i).kid.startswith("-") for i in range(500))
    assert set(new_name()) <= set("0123456789abcdef")
