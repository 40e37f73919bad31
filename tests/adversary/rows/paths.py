"""Paths that might lead into another service, or to a file.

Each listener of the edge leads to one service; the form of an error identifies it. Of Serve's front
and Ray's Python proxy, which takes its place, only the second decodes paths before it routes.
"""

from tests.adversary.attack import EDGES, NO_HTTP, TOKEN, Attack
from tests.adversary.wire import request

FORMS = {"inference": "detail", "gateway": "message", "density": "detail", "loans": "title"}
FORMS |= {"console": "detail"}
NOWHERE = {
    "inference": (
        "/./predict_action",
        "/predict_action%00",
        "/PREDICT_ACTION",
        "/%61pi/loans",
        "/api%2floans",
        "///api/loans",
        "/api\\loans",
        "//-/routes",
        "/metrics",
        "/api/loans",
        "/api/traffic/action",
        "/api//loans",
        "/api%2fcards/fetch",
        "/%2Fapi/loans",
        "/%2e/api/loans",
        "/density/predict",
        "/density%2fpredict",
        "/density/../predict_action",
        "/flow/forecast",
        "/console",
        "/console%2findex.html",
        "http://localhost/api/loans",
        "/%70redict_action",
    ),
    "console": (
        "/console/../predict_action",
        "/console/../../../../../etc/passwd",
        "/console/..%5c..%5cservice.py",
        "/console//etc/passwd",
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
        "/api/..\\predict_action",
        "/api//../predict_action",
        "/api/%70redict_action",
        "/%61pi/traffic/action",
        "/api/loans",
        "/api/loans/../traffic/action",
        "/api/%6coans",
        "/api/%2floans",
        "/api/%256coans",
        "/api/%6%63oans",
        "/api/loans;x=1",
        "/api/loans%2ffetch",
        "/api/accounts%2f..%2floans",
        "/-/routes",
        "/density/predict",
        "/api/traffic/action/",
        "/api/traffic//action",
        "/api/traffic/action%3f",
        "/api/auth/login/../../traffic/reset",
        "http://localhost/predict_action",
        "http://localhost/api/loans",
        "/console/%2e%2e/predict_action",
        "/console/..%2f..%2f..%2fetc/passwd",
        "/console/%2fetc%2fpasswd",
        "/console/index.html%00.js",
        "/api/" + "a" * 9000,
    ),
    "density": (
        "/predict_action",
        "/../predict_action",
        "/density/../predict_action",
        "/flow/../density/predict",
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
        "/api/%6coans/../cards",
        "/api%2floans",
        "/api/%63ards",
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
        port="gateway" if port == "console" else port,
        form=form or FORMS[port],
        places=EDGES,
    )


ATTACKS = (
    *(
        asking(port, "GET" if "onsole" in path else "POST", path, 404)
        for port, paths in NOWHERE.items()
        for path in paths
    ),
    # what has to be encoded reaches its service, and so does any query
    asking("inference", "POST", "/runs/a%20b/fork", 422),
    asking("inference", "POST", "/runs/a%C3%A9/fork?b=%2f%61", 422),
    asking("inference", "POST", "/runs/a%3Ab/fork", 422),
    asking("inference", "POST", "/predict_action/", 307),
    asking("gateway", "POST", "/api/accounts/../loans", 404, form="title"),
    asking("inference", "POST", "/predict_action#x", NO_HTTP),
    asking("inference", "POST", "/\x7f", NO_HTTP),
    asking("inference", "POST", "/predict_action?" + "a" * 100_000, NO_HTTP),
    asking("inference", "POST", "?", 400),
    asking("loans", "POST", "*", 400),
)
