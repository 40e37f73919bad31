"""Headers with tokens that the gateway must refuse; test_tokens.py has the tokens themselves."""

from tests.adversary.attack import NO_HTTP, TOKEN, Attack
from tests.adversary.wire import DECISION, RUN, request


def asking(name: str, *headers: bytes, answers: tuple[int | str, ...] = (401,)) -> Attack:
    sent = request(
        "POST",
        "/api/traffic/action",
        b"Connection: close",
        b"X-Simulation-Run: " + RUN,
        *headers,
        body=DECISION,
    )
    return Attack(f"token: {name}", (sent,), answers, port="gateway", form="message")


VALID = b"Authorization: Bearer " + TOKEN
ATTACKS = (
    asking("none"),
    asking("only the scheme", b"Authorization: Bearer"),
    asking("no JWT", b"Authorization: Bearer not.a.token"),
    asking("of 12 KB", VALID + b"a" * 12_000),
    asking("without scheme", b"Authorization: " + TOKEN),
    asking("after another scheme", b"Authorization: Basic Bearer " + TOKEN),
    asking("in the query alone", b"X-Access-Token: " + TOKEN),
    asking("two headers", VALID, b"Authorization: Bearer not.a.token"),
    asking("two headers, the valid one last", b"Authorization: Basic YTph", VALID),
    asking("two in one header", VALID + b", Bearer " + TOKEN),
    asking("with a space in it", b"Authorization: Bearer " + TOKEN[:9] + b" " + TOKEN[9:]),
    asking("of 1 MB", b"Authorization: Bearer " + b"a" * (1 << 20), answers=(NO_HTTP,)),
)
