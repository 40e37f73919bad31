"""``greenwave tokens``, and how long signing keys verify them."""

import json
import re
import time

from deployments.access.tokens import Tokens
from serve_app.identity.keys import ConfiguredKeys
from serve_app.settings import Settings


def test_a_token_is_created_listed_and_revoked(greenwave):
    created = greenwave("tokens", "create", "controller", "act", "read", "--days", "30")
    assert (created.code, created.err.startswith("Created the token ")) == (0, True)
    token = created.out.strip()
    verified = Tokens(ConfiguredKeys(Settings())(), 60, 5).verify(token)
    assert verified.subject == "service:controller"
    assert verified.scopes == {"act", "read"}
    assert 29 * 86_400 < verified.expires_at - time.time() <= 30 * 86_400
    listed = greenwave("tokens", "list").out
    assert re.fullmatch(r"\S+  controller  act read  20\S+ to 20\S+  valid\n", listed)
    assert token not in listed + created.err
    (entry,) = json.loads(greenwave("tokens", "list", "--json").out)
    assert (entry["name"], entry["scopes"], entry["revoked_at"]) == (
        "controller",
        ["act", "read"],
        None,
    )
    revoked = greenwave("tokens", "revoke", str(verified.token_id))
    assert revoked == (0, "Revoked 1 token.\n", "")
    assert re.search(r"  revoked 20\S+\n", greenwave("tokens", "list").out)


def test_a_rotated_key_verifies_until_the_last_token_expires(greenwave):
    token = greenwave("tokens", "create", "controller", "--days", "365").out.strip()
    greenwave("keys", "rotate", "--after", "0")
    later = Tokens(ConfiguredKeys(Settings())(), 60, 5, lambda: time.time() + 364 * 86_400)
    assert later.verify(token).subject == "service:controller"
    greenwave("tokens", "revoke", "controller")
    greenwave("keys", "rotate", "--after", "0")
    assert "verifies until" in greenwave("keys", "list").lines[0]
