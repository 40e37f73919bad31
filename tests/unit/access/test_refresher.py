"""What keeps a replica's knowledge of access up to date."""

from __future__ import annotations

import asyncio
import logging

import pytest

from deployments.access.keys import Keys, key_of_secret, new_key
from deployments.access.refresher import Refresher, following_keys
from deployments.access.tokens import Tokens
from tests.unit.stateful.virtual_time import virtual_time

SECRET = b"0123456789abcdef" * 4


def test_a_step_that_fails_is_tried_again_and_told_once(caplog):
    calls = 0

    async def step() -> None:
        nonlocal calls
        calls += 1
        if calls < 5:
            raise OSError("no such disk")

    @virtual_time
    async def story() -> None:
        refresher = Refresher({"The file of keys": step})
        await asyncio.sleep(10.5)
        refresher.check_health()
        refresher.stop()

    with caplog.at_level(logging.WARNING, logger="ray.serve"):
        story()
    assert calls == 10
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert told[0] == "The file of keys does not serve: no such disk"


def test_its_death_is_noticed():
    @virtual_time
    async def story() -> None:
        async def step() -> None: ...

        refresher = Refresher({"The file of keys": step})
        refresher.check_health()
        refresher.stop()
        await asyncio.sleep(0.1)
        with pytest.raises(RuntimeError, match="The file of keys is not followed any more"):
            refresher.check_health()

    story()


async def test_tokens_follow_the_keys_and_stay_as_they_are_while_those_do():
    old = Keys.of_secret(SECRET)
    tokens = Tokens(old, 60, 5)
    token = tokens.issue("ann")
    tokens.verify(token)
    read = [old]
    follow = following_keys(tokens, lambda: read[0])
    await follow()
    assert tokens.keys is old
    assert tokens._verified, "nothing is forgotten for nothing"
    read[0] = Keys([key_of_secret(SECRET), new_key("HS256", 0)])
    await follow()
    assert tokens.keys is read[0]
    assert tokens.verify(token).subject == "ann"
