"""Headers that lie, are too many, or say what the edge and Serve would act on."""

from tests.adversary.attack import NO_HTTP, Attack, Expected
from tests.adversary.wire import OBSERVED, RUN, request, step

CLOSE = b"Connection: close"
LAST = step(CLOSE)


def with_headers(name: str, *headers: bytes, status: int | str = 200) -> Attack:
    return Attack(f"header: {name}", (step(*headers, CLOSE),), (status,))


def of_host(
    name: str, host: bytes, *answers: int | str, at_front: Expected | None = None
) -> Attack:
    sent = LAST.replace(b"Host: localhost\r\n", host, 1)
    return Attack(f"host: {name}", (sent,), answers, at_front)


def of_run(name: str, *runs: bytes) -> Attack:
    sent = request(
        "POST",
        "/predict_action",
        *(b"X-Simulation-Run: " + run for run in runs),
        CLOSE,
        body=OBSERVED,
    )
    return Attack(f"run: {name}", (sent,), (400,))


ATTACKS = (
    with_headers("of 1 MB", b"X-A: " + b"a" * (1 << 20), status=NO_HTTP),
    with_headers("of 1 MB, name", b"a" * (1 << 20) + b": a", status=NO_HTTP),
    with_headers("10,000", *(b"X-%d: a" % n for n in range(10_000)), status=NO_HTTP),
    with_headers("200", *(b"X-%d: a" % n for n in range(200)), status=NO_HTTP),
    with_headers("90 cookies", *[b"Cookie: " + b"a=b; " * 20] * 90),
    with_headers("request id, folded", b"X-Request-Id: a\r\n Set-Cookie: a=b"),
    with_headers("request id, high bytes", b"X-Request-Id: \xe2\x80\xa8\xff"),
    with_headers("request id of 9 KB", b"X-Request-Id: " + b"a" * 9000),
    with_headers("two request ids", b"X-Request-Id: a", b"X-Request-Id: b"),
    with_headers("trace parent", b"traceparent: 00-" + b"f" * 500 + b"-\xff-ff"),
    with_headers("arrival", b"X-Request-Start: 1e999", b"X-Request-Start: -1"),
    with_headers("ranges", b"Range: bytes=" + b"0-0," * 1000),
    with_headers("override", b"X-HTTP-Method-Override: DELETE", b"X-Original-URL: /model_info"),
    with_headers("key, not of its form", b"Idempotency-Key: a b", status=400),
    with_headers("two keys", b"Idempotency-Key: a", b"Idempotency-Key: b", status=400),
    Attack(
        "header: ranges of a file",
        (request("GET", "/console/main.js", b"Range: bytes=" + b"0-1,3-4," * 900, CLOSE),),
        (200,),
        port="gateway",
    ),
    of_host("none", b"", 200),
    of_host("two", b"Host: localhost\r\nHost: y\r\n", NO_HTTP),
    of_host("with a port", b"Host: 127.0.0.1:1\r\n", 200),
    of_host("of IPv6", b"Host: [::1]:8000\r\n", 200),
    of_host("in capitals", b"Host: LocalHost\r\n", 200),
    of_host("empty", b"Host:\r\n", 403, at_front=(200,)),
    of_host("another", b"Host: evil.example\r\n", 403, at_front=(200,)),
    of_host(
        "another, below this one", b"Host: localhost.evil.example:80\r\n", 403, at_front=(200,)
    ),
    of_host("another, with this one", b"Host: localhost@evil.example\r\n", NO_HTTP),
    of_host("a path", b"Host: localhost/api/traffic/action?\r\n", NO_HTTP),
    of_host("a list", b"Host: localhost, y\r\n", NO_HTTP),
    of_run("a path", b"../../etc/passwd"),
    of_run("of 65 characters", b"a" * 65),
    of_run("not ASCII", b"\xc3\xa9"),
    of_run("two", RUN, b"another"),
    of_run("a glob", b"*"),
)
