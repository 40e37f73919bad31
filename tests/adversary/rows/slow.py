"""Requests that come a byte a second, or never end: what is not there in 10 s is answered 408."""

from tests.adversary.attack import EDGES, Attack
from tests.adversary.wire import RUN, Piece, step

BYTES = 14
NO_REQUEST = ("408 text/html",)  # the path is not known yet, and so no service


def drip(opening: bytes, drop: bytes) -> tuple[Piece, ...]:
    return (opening, *(piece for _ in range(BYTES) for piece in (1.0, drop)))


CHUNKS = (
    b"POST /predict_action HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Simulation-Run: "
    + RUN
    + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
)
ATTACKS = (
    Attack("slow: body", drip(step(body=b"{", length=b"90"), b" "), (408,)),
    Attack("slow: chunks", drip(CHUNKS, b"1\r\n \r\n"), (408,)),
    Attack("slow: long body", drip(step(body=b" " * 30_000, length=b"60000"), b" "), (408,)),
    Attack(
        "slow: header",
        drip(b"POST /predict_action HTTP/1.1\r\nHost: localhost\r\nX-A: ", b"a"),
        NO_REQUEST,
        places=EDGES,
    ),
    Attack("slow: first line", drip(b"POST /pre", b"d"), NO_REQUEST, places=EDGES),
    Attack("slow: nothing", (b"", 12.0), NO_REQUEST, places=EDGES),
)
