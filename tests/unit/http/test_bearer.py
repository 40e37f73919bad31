"""Without the token nothing is answered but the probes, whichever way a request takes."""

import hmac
from typing import Any

import pytest

from deployments.http import request as bearer
from deployments.http.errors import UnauthorizedError
from deployments.http.probes import Probes
from deployments.http.request import BearerGuard
from tests.unit.http.apps import PATH, app_with, client_of

TOKEN, OTHER = "t" * 32, "u" * 32


@pytest.fixture
def client():
    app = app_with(max_body=10, guard=BearerGuard([TOKEN, OTHER]))
    Probes().add_to(app.state.fast_routes)

    @app.get("/health")
    async def health():
        return "ok"

    return client_of(app)


CLOSED = [("POST", PATH), ("GET", "/status"), ("GET", "/docs"), ("GET", "/openapi.json")]


@pytest.mark.parametrize(("method", "path"), [*CLOSED, ("GET", "/none"), ("DELETE", PATH)])
@pytest.mark.parametrize(
    "given",
    [None, "", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer ", f"Bearer {TOKEN}x", "Bearer \xe4"],
)
async def test_without_the_token_it_is_401_in_the_services_form(client, method, path, given):
    headers = {} if given is None else {b"Authorization": given.encode("latin-1")}
    answer = await client.request(method, path, headers=headers)
    assert answer.status_code == 401
    assert list(answer.json()) == ["detail"]
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


@pytest.mark.parametrize(("method", "path"), CLOSED)
@pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer  {TOKEN}", f"Bearer {OTHER}"])
async def test_with_one_of_the_tokens_it_is_answered_and_probes_without(
    client, method, path, given
):
    for probe in ("/livez", "/readyz", "/health"):
        assert (await client.get(probe)).status_code == 200
    answer = await client.request(method, path, headers={"Authorization": given})
    assert answer.status_code == 200


def test_two_headers_count_for_nothing():
    right, wrong = (b"authorization", f"Bearer {TOKEN}".encode()), (b"authorization", b"Bearer x")
    guard = BearerGuard([TOKEN])
    guard({"headers": [right]})
    for headers in ([right, wrong], [wrong, right], [right, right]):
        with pytest.raises(UnauthorizedError):
            guard({"headers": headers})


def test_every_token_is_compared_in_constant_time(monkeypatch):
    compared: list[Any] = []

    def compare(given, token):
        compared.append(token.decode())
        return hmac.compare_digest(given, token)

    monkeypatch.setattr(bearer, "compare_digest", compare)
    BearerGuard([TOKEN, OTHER])({"headers": [(b"authorization", f"Bearer {TOKEN}".encode())]})
    assert compared == [TOKEN, OTHER]


def test_a_guard_without_a_token_is_none():
    with pytest.raises(ValueError, match="needs a token"):
        BearerGuard([])
