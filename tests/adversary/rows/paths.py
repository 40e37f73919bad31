"""Paths that might lead into another service, or to a file.

Each listener of the edge leads to one service; the form of an error identifies it.
"""

from __future__ import annotations

from tests.adversary.attack import NO_HTTP, TOKEN, Attack
from tests.adversary.wire import request

FORMS = {"inference": "detail", "gateway": "message", "density": "detail", "loans": "title"}
NOWHERE = {
    "inference": (
        "//predict_action",
        "/./predict_action",
        "/x/../predict_action",
        "/predict_action%00",
        "/predict_action;x=1",
        "/predict_action%20",
        "/PREDICT_ACTION",
        "/%61pi/loans",
        "/api%2floans",
        "/API/traffic/action",
        "///api/loans",
        "/api\\loans",
        "//-/routes",
        "/%2d/routes",
        "/..",
        "/metrics",
        "/density/../predict_action",
        "/console/../predict_action",
        "/console/%2e%2e/predict_action",
        "/console/../../../../../etc/passwd",
        "/console/..%2f..%2f..%2fetc/passwd",
        "/console/%2e%2e/service.py",
        "/console/..%5c..%5cservice.py",
        "/console//etc/passwd",
        "/console/%2fetc%2fpasswd",
        "/console/index.html%00.js",
        "/console/%",
        "/console/%ff",
        "/console/" + "a/" * 3000,
    ),
    "gateway": (
        "/predict_action",
        "//predict_action",
        "/api/../predict_action",
        "/api/../../predict_action",
        "/api/%2e%2e/predict_action",
        "/api/..%2fpredict_action",
        "/api/.%2e/predict_action",
        "/api/..;/predict_action",
        "/api/..\\predict_action",
        "/api//../predict_action",
        "/api/%70redict_action",
        "/%61pi/traffic/action",
        "/api/loans",
        "/api/loans/../traffic/action",
        "/api/cards/../accounts",
        "/api/%6coans",
        "/api/loans%2ffetch",
        "/api/accountx",
        "/api/-/routes",
        "/-/routes",
        "/density/predict",
        "/api/traffic/action/",
        "/api/traffic//action",
        "/api/traffic/Action",
        "/api/traffic/action%3f",
        "/api/traffic/action%00",
        "/api/auth/login/../../traffic/reset",
        "http://x/predict_action",
        "http://x/api/loans",
        "/api/" + "a" * 9000,
    ),
    "density": (
        "/predict_action",
        "/../predict_action",
        "/density/../predict_action",
        "/density/%2e%2e/predict_action",
        "/flow/../density/predict",
        "/forecast/../predict_action",
        "/density//predict",
        "/predict/",
        "/api/traffic/action",
        "/-/routes",
        "/PREDICT",
    ),
    "loans": (
        "/api/accounts",
        "/api/loans/../accounts",
        "/api/loans/..",
        "/api/loans/%2e%2e/accounts",
        "/api/loansharks",
        "/api/%6coans",
        "//api/loans",
        "/predict_action",
        "/-/routes",
    ),
}


def asking(port: str, method: str, path: str, *answers: int | str, form: str = "") -> Attack:
    sent = request(
        method, path, b"Authorization: Bearer " + TOKEN, b"Connection: close", body=b"{}"
    )
    return Attack(
        f"path: {port} {path[:60]}",
        (sent,),
        answers,
        port=port,
        form=form or FORMS[port],
        places=("edge",),
    )


ATTACKS = (
    *(
        asking(port, "GET" if path.startswith("/console") else "POST", path, 404)
        for port, paths in NOWHERE.items()
        for path in paths
    ),
    # an encoded name is the same name (RFC 3986, 6.2.2.2), for its own service
    asking("inference", "POST", "/%70redict_action", 422),
    asking("gateway", "POST", "/api/traffic/%61ction", 400),
    asking("inference", "POST", "/predict_action/", 307),
    asking("gateway", "POST", "/api/accounts/../loans", 404, form="title"),
    asking("gateway", "GET", "/console/../predict_action", 404, form="detail"),
    asking("inference", "POST", "/predict_action#x", NO_HTTP),
    asking("inference", "POST", "/\x7f", NO_HTTP),
    asking("inference", "POST", "/predict_action?" + "a" * 100_000, NO_HTTP),
    asking("inference", "POST", "?", 400),
    asking("loans", "POST", "*", 400),
)
