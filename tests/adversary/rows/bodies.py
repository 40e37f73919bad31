"""Bodies that are no JSON, too much of it, or numbers that no number type holds.

Each is sent to every route that takes a body. A step is made where, and only where, the answer is a
prediction.
"""

import gzip
from collections.abc import Callable
from dataclasses import dataclass

from tests.adversary.attack import EDGES, TOKEN, Attack
from tests.adversary.wire import RUN, request


@dataclass(frozen=True)
class Route:
    """A route that takes a body.

    Attributes:
        with_number: a body that is right but for a number.
        refused: the status of a body that is wrong.
        edge: the edge's listener that leads to it.
    """

    method: str
    path: str
    with_number: Callable[[bytes], bytes]
    refused: int
    edge: str
    form: str


def _around(before: bytes, after: bytes) -> Callable[[bytes], bytes]:
    return lambda number: before + number + after


JUNCTION = b'{"junction_id":"300839359",'
SAMPLE = JUNCTION + b'"historical_data":[{"timestamp":1774000000,"vehicle_count":1,"occupancy":0.1,'
STEP = _around(JUNCTION + b'"obs_data":[', b"]}")
DECISION = _around(b'{"junctionId":"300839359","observations":[', b"]}")
DENSITIES = _around(b'{"data":[[', b",1,1,1,1],[1,1,1,1,1],[1,1,1,1,1]]}")
SAMPLES = _around(SAMPLE + b'"avg_speed":', b"}]}")
LOAN = _around(b'{"mobileNumber":"4354437687","totalLoan":', b"}")
ROUTES = {
    "step": Route("POST", "/predict_action", STEP, 422, "inference", "detail"),
    "decision": Route("POST", "/api/traffic/action", DECISION, 400, "gateway", "message"),
    "density": Route("POST", "/predict", DENSITIES, 400, "density", "detail"),
    "flow": Route("POST", "/forecast", SAMPLES, 400, "density", "detail"),
    "loan": Route("PUT", "/api/loans", LOAN, 400, "loans", "title"),
}
NUMBERS = {
    "1e400": b"1e400",
    "-1e400": b"-1e400",
    "NaN": b"NaN",
    "Infinity": b"Infinity",
    "an exponent of 20 digits": b"1e99999999999999999999",
    "4300 digits": b"9" * 4300,
    "-10,000 digits": b"-" + b"9" * 10_000,
    "leading zero": b"01",
    "plus": b"+1",
    "1_000": b"1_000",
}
SMALL = {"-0": b"-0", "1e-400": b"1e-400", "10,000 decimals": b"0." + b"1" * 10_000}
NO_OBJECTS = {
    "60,000 brackets": b"[" * 60_000,
    "10,000 objects deep": b'{"a":' * 10_000,
    "deep in a field": b'{"junction_id":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "lone surrogate": b'{"junction_id":"\\ud800","junctionId":"\\ud800","loanType":"\\ud800"}',
    "not UTF-8": b'{"junction_id":"\xff"}',
    "UTF-16": "{}".encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{}",
    "trailing garbage": b"{} x",
    "comma at the end": b'{"a":1,}',
    "NUL": b'{"a":"\0"}',
    "nothing but null": b"null",
    "form": b"junction_id=300839359&obs_data=1",
    "multipart": b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x--\r\n',
    "gzip": gzip.compress(b" " * 10_000_000),
    "numbers with one hash": b'{"data":[%b]}'
    % b",".join(b"%d" % (n * (2**61 - 1)) for n in range(2_500)),
}
TOO_LARGE = {"10 MB of spaces": b" " * 10_000_000, "deep, 2 MB": b"[" * (2 << 20)}


def sending(route: str, name: str, body: bytes, status: int, *headers: bytes) -> Attack:
    to = ROUTES[route]
    headers = headers or (b"Content-Type: application/json",)
    sent = request(
        to.method,
        to.path,
        b"X-Simulation-Run: " + RUN,
        b"Authorization: Bearer " + TOKEN,
        b"Connection: close",
        *headers,
        body=body,
    )
    # at Serve's front, forecasts have their prefixes; what the edge passes on is the same
    return Attack(
        f"body: {route}, {name}", (sent,), (status,), port=to.edge, form=to.form, places=EDGES
    )


ATTACKS = (
    *(
        sending(route, name, to.with_number(number), to.refused)
        for route, to in ROUTES.items()
        if route != "loan"  # with other fields missing, it would be refused for these
        for name, number in NUMBERS.items()
    ),
    *(
        sending(route, name, to.with_number(number), 200)
        for route, to in ROUTES.items()
        if route != "loan"
        for name, number in SMALL.items()
    ),
    *(
        sending(route, name, body, to.refused)
        for route, to in ROUTES.items()
        for name, body in NO_OBJECTS.items()
    ),
    *(sending(route, name, body, 413) for route in ROUTES for name, body in TOO_LARGE.items()),
    sending(
        "step", "a member twice", b'{"junction_id":"x",%b' % JUNCTION[1:] + b'"obs_data":[]}', 200
    ),
    sending("loan", "a member twice", b'{"loanType":"a","loanType":"b"}', 400),
    sending("loan", "10,000 digits", b'{"totalLoan":' + b"9" * 10_000 + b"}", 400),
    sending("loan", "NaN", b'{"totalLoan":NaN}', 400),
    *(
        sending("loan", f"declared as {kind}", b"{}", 415, b"Content-Type: " + kind.encode())
        for kind in ("multipart/form-data; boundary=x", "text/plain", "application/xml", "x")
    ),
    *(
        sending("step", f"declared as {kind}", b"a=b", 422, b"Content-Type: " + kind.encode())
        for kind in ("multipart/form-data; boundary=x", "application/x-www-form-urlencoded")
    ),
    sending("step", "gzip, as declared", gzip.compress(b"{}"), 422, b"Content-Encoding: gzip"),
    sending(
        "decision",
        "a lone surrogate as metadata",
        b'{"junctionId":"300839359","observations":[1],"metadata":"\\ud800"}',
        400,
    ),
)
