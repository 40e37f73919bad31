"""Requests hidden in requests: all readers must count the same number.

``HIDDEN`` is a whole request for a step. Where it is part of a body, its step must not be made;
where it is a request after another, it must be answered.
"""

from tests.adversary.attack import NO_HTTP, Attack, Expected
from tests.adversary.wire import OBSERVED, RUN, Piece, request, step

HIDDEN = step(b"Connection: close")
SIZE = b"%x" % len(OBSERVED)
END = b"0\r\n\r\n"
UNREAD, NOWHERE = ("400 text/plain",), ("404 text/plain",)  # at Serve's front
ONE_CHUNK = SIZE + b"\r\n" + OBSERVED + b"\r\n" + END
MB = b"a" * (1 << 20)
WEBSOCKET = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
ELSE = (b"Connection: Upgrade", b"Upgrade: else")
H2C = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAA")


def chunked(body: bytes, *headers: bytes, coding: bytes = b"Transfer-Encoding: chunked") -> bytes:
    run, close = b"X-Simulation-Run: " + RUN, b"Connection: close"
    return request("POST", "/predict_action", run, coding, *headers, close) + body


def both_lengths(body: bytes, coding: bytes) -> bytes:
    return chunked(body, b"Content-Length: %d" % len(body), coding=coding)


def once(
    name: str, sent: bytes | Piece, *answers: int | str, at_front: Expected | None = None
) -> Attack:
    return Attack(name, (sent,), answers, at_front)


def length(name: str, value: bytes, *answers: int | str) -> Attack:
    return once(f"Content-Length {name}", step(b"Connection: close", length=value), *answers)


def chunk(name: str, body: bytes, *answers: int | str, at_front: Expected | None = None) -> Attack:
    return once(f"chunk {name}", chunked(body), *answers, at_front=at_front)


def first_chunk(name: str, line: bytes, *answers: int | str) -> Attack:
    return chunk(name, line + b"\r\n" + OBSERVED + b"\r\n" + END, *answers)


def head(name: str, line: bytes, *answers: int | str, at_front: Expected | None = None) -> Attack:
    sent = step(line, b"Connection: close")
    return once(f"header {name}", sent, *answers, at_front=at_front)


def first_line(
    name: str, line: bytes, *answers: int | str, at_front: Expected | None = None
) -> Attack:
    sent = HIDDEN.replace(b"POST /predict_action HTTP/1.1", line, 1)
    return once(f"request line {name}", sent, *answers, at_front=at_front)


LENGTHS = (
    once("CL.TE", both_lengths(ONE_CHUNK + HIDDEN, b"Transfer-Encoding: chunked"), 200),
    once("CL.TE, short", chunked(ONE_CHUNK + HIDDEN, b"Content-Length: 4"), 200),
    once(
        "TE.CL",
        chunked(b"%x\r\n%b\r\n" % (len(HIDDEN), HIDDEN) + END, b"Content-Length: 4"),
        422,
    ),
    *(
        once(f"TE.TE, {name}", both_lengths(ONE_CHUNK + HIDDEN, coding), *answers)
        for name, coding, answers in (
            ("identity", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", (NO_HTTP,)),
            ("chunked, gzip", b"Transfer-Encoding: chunked, gzip", (NO_HTTP,)),
            ("chunked twice", b"Transfer-Encoding: chunked, chunked", (NO_HTTP,)),
            ("space before the colon", b"Transfer-Encoding : chunked", (NO_HTTP,)),
            ("vertical tab", b"Transfer-Encoding: \x0bchunked", (NO_HTTP,)),
            ("after a bare CR", b"X: y\rTransfer-Encoding: chunked", (NO_HTTP,)),
            ("after a bare LF", b"X: y\nTransfer-Encoding: chunked", (200,)),
            ("tab", b"Transfer-Encoding:\tchunked", (200,)),
            ("folded", b"Transfer-Encoding:\r\n chunked", (200,)),
            ("upper case", b"TRANSFER-ENCODING: CHUNKED", (200,)),
            ("underscore", b"Transfer_Encoding: chunked", (422,)),
        )
    ),
    once(
        "gzip, chunked",
        chunked(ONE_CHUNK, coding=b"Transfer-Encoding: gzip, chunked"),
        "422 text/html",
    ),
    once(
        "chunked in HTTP/1.0",
        both_lengths(ONE_CHUNK + HIDDEN, b"Transfer-Encoding: chunked").replace(b"1.1", b"1.0", 1),
        200,
    ),
    head("Content-Length twice, alike", b"Content-Length: %d" % len(OBSERVED), 200),
    head("Content-Length twice", b"Content-Length: 4", NO_HTTP),
    length("44, 44", b"44, 44", 200),
    length("44, 4", b"44, 4", NO_HTTP),
    length("negative", b"-1", NO_HTTP),
    length("hexadecimal", b"0x2c", NO_HTTP),
    length("with a letter", b"44a", NO_HTTP),
    length("empty", b"", NO_HTTP),
    length("leading zeros", b"0000044", 200),
    length("30 digits", b"9" * 30, NO_HTTP),
    length("2**64 + 44", b"%d" % (2**64 + 44), NO_HTTP),
    once("GET with a body", request("GET", "/model_info", b"Connection: close", body=HIDDEN), 200),
    once("GET, then a step", request("GET", "/model_info", length=b"0") + HIDDEN, 200, 200),
    once("pipelined", step() + step() + HIDDEN, 200, 200, 200),
)

CHUNKS = (
    first_chunk("overflow", b"1000000000000002c", NO_HTTP),
    first_chunk("negative", b"-" + SIZE, NO_HTTP),
    first_chunk("0x", b"0x" + SIZE, NO_HTTP),
    first_chunk("space first", b" " + SIZE, NO_HTTP),
    first_chunk("no size", b"", NO_HTTP),
    first_chunk("a thousand zeros", b"0" * 1000 + SIZE, 200),
    first_chunk("space last", SIZE + b" ", 200),
    first_chunk("extension", SIZE + b";a=b", 200),
    first_chunk("extension with LF", SIZE + b";a\nb", NO_HTTP),
    first_chunk("extension of 1 MB", SIZE + b";" + MB, 408),
    chunk("bare LF after the size", SIZE + b"\n" + OBSERVED + b"\r\n" + END, NO_HTTP),
    chunk("bare LF after the data", SIZE + b"\r\n" + OBSERVED + b"\n" + END, NO_HTTP),
    chunk("bare CR after the size", SIZE + b"\r" + OBSERVED + b"\r\n" + END, NO_HTTP),
    chunk("longer than declared", SIZE + b"\r\n" + OBSERVED + b"XX" + END, NO_HTTP),
    chunk("trailing bytes", ONE_CHUNK + b"garbage", 200),
    chunk("trailer of 1 MB", ONE_CHUNK[:-2] + b"X: %b\r\n\r\n" % MB, 400, at_front=(NO_HTTP,)),
    chunk("trailer that is a request", ONE_CHUNK[:-2] + HIDDEN, NO_HTTP),
)

HEADS = (
    head("folded", b"X-A: a\r\n b", 200),
    once("a length in a fold", step(b"X-A: a\r\n Content-Length: 0") + HIDDEN, 200, 200),
    head("space before the colon", b"X-A : a", NO_HTTP),
    head("NUL in a value", b"X-A: a\0b", NO_HTTP),
    head("bare CR in a value", b"X-A: a\rb", NO_HTTP),
    head("with a control character", b"X-A: a\x01b", 400, at_front=UNREAD),
    first_line("unknown method", b"FOO /predict_action HTTP/1.1", 400, at_front=UNREAD),
    head("high bytes in a value", b"X-A: \xff\xfe", 200),
    head("space in a name", b"X A: a", NO_HTTP),
    head("high byte in a name", b"X\xff: a", NO_HTTP),
    head("no colon", b"X-A", NO_HTTP),
    head("Connection names the run", b"Connection: X-Simulation-Run", 200),
    head("Connection names the length", b"Connection: Content-Length", 200),
    once("lines end with LF", HIDDEN.replace(b"\r\n", b"\n"), 200),
    once("empty lines first", b"\r\n\r\n\r\n" + HIDDEN, 200),
    once("folded before the first", b"GET / HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n", NO_HTTP),
    once("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 99 + b"\r\n\r\n", NO_HTTP),
    once("HTTP/0.9", b"GET /model_info\r\n", NO_HTTP),
    first_line("HTTP/9.9", b"POST /predict_action HTTP/9.9", 200),
    first_line("HTTP/1.10", b"POST /predict_action HTTP/1.10", NO_HTTP),
    first_line("bad method", b"P@ST /predict_action HTTP/1.1", NO_HTTP),
    first_line("space in the path", b"POST /predict_action x HTTP/1.1", NO_HTTP),
    first_line("absolute", b"POST http://localhost/predict_action HTTP/1.1", 200),
    first_line("absolute, another host", b"POST http://y:9/predict_action HTTP/1.1", NO_HTTP),
)

OTHER_PROTOCOLS = (
    once("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9),
    once(
        "CONNECT",
        b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n" + HIDDEN,
        400,
        at_front=("404 text/plain", 200),
    ),
    once("OPTIONS *", request("OPTIONS", "*", b"Connection: close"), 400, at_front=NOWHERE),
    once("TRACE", request("TRACE", "/model_info", b"Connection: close"), 405),
    once("WebSocket, GET", request("GET", "/model_info", *WEBSOCKET) + HIDDEN, 200, 200),
    once("WebSocket, step", step(*WEBSOCKET) + HIDDEN, 200, 200, at_front=(422, 200)),
    once("another protocol, step", step(*ELSE) + HIDDEN, 200, 200, at_front=(422, 200)),
    Attack(
        "another protocol, body later",
        (request("POST", "/predict_action", *ELSE, length=b"%d" % len(HIDDEN)), 0.5, HIDDEN),
        (422,),
    ),
    once("h2c, step", step(*H2C) + HIDDEN, 200, 200),
    once("Expect", step(b"Expect: 100-continue") + HIDDEN, 200, 200),
    once("Expect, GET", request("GET", "/model_info", b"Expect: 100-continue") + HIDDEN, 200, 200),
    once("Expect something else", step(b"Expect: 200-maybe") + HIDDEN, 200, 200),
)

ATTACKS = LENGTHS + CHUNKS + HEADS + OTHER_PROTOCOLS
