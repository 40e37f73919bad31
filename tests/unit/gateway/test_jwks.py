"""Other services verify tokens by what the gateway shows, and learn no secret from it."""

import time
from dataclasses import replace

import jwt
import pytest

from deployments.access.keys import Keys, key_of_secret, new_key
from tests.unit.gateway.conftest import SECRET

ROUTE = "/.well-known/jwks.json"
ISSUER = "traffic-api-gateway"


async def test_by_default_there_is_nothing_to_show(client):
    answer = await client.get(ROUTE)
    assert (answer.status_code, answer.json()) == (200, {"keys": []})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=15"


@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA"])
async def test_another_service_verifies_a_login_with_the_shown_key_alone(
    client, login, tokens, algorithm
):
    tokens.use(Keys([key_of_secret(SECRET), new_key(algorithm, 0)]))
    token = (await login()).json()["accessToken"]
    shown = jwt.PyJWKSet.from_dict((await client.get(ROUTE)).json())
    (key,) = [key for key in shown.keys if key.key_id == jwt.get_unverified_header(token)["kid"]]
    assert key.algorithm_name == algorithm
    claims = jwt.decode(token, key, algorithms=[algorithm], issuer=ISSUER)
    assert (claims["sub"], claims["scope"]) == ("ann", "act reset read")
    headers = {"Authorization": f"Bearer {token}"}
    assert (await client.get("/traffic/action", headers=headers)).status_code == 200


async def test_no_secret_is_shown_and_a_key_from_before_it_signs_until_its_end(client, tokens):
    now = time.time()
    private = {"d", "p", "q", "dp", "dq", "qi", "k"}
    coming = new_key("EdDSA", now + 60)
    ended = replace(new_key("EdDSA", 0), verifies_until=now - 1)
    tokens.use(Keys([key_of_secret(SECRET), new_key("RS256", 0), coming, ended]))
    shown = (await client.get(ROUTE)).json()["keys"]
    assert sorted(key["kty"] for key in shown) == ["OKP", "RSA"]
    assert coming.kid in {key["kid"] for key in shown}
    assert all(not private & key.keys() for key in shown)
