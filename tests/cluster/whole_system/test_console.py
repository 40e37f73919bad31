"""The live console as a user sees it: in a real browser, through the edge."""

from tests.cluster.browser.console import Console, driving


def test_a_user_logs_in_and_sees_decisions(browser, sut, known, inference, run_id):
    console = Console(browser, sut.edge.urls()["gateway"])
    console.open()
    console.log_in("operator", "wrong")
    console.wait(console.says("#login-problem", "Invalid"))
    console.log_in("operator", known["JWT_AUTH_PASSWORD"])
    inference.headers["X-Simulation-Run"] = run_id
    with driving(inference):
        console.wait(console.says("#connection", "live"))
        console.wait(console.says("#run-facts", run_id))
        console.wait(console.steps)
        (step, *_) = console.steps()
        console.wait(lambda: console.steps()[0] > step)
        console.wait(console.says("#what-if .said", "of this lane filled: phase"))
    refused = [line for line in console.complaints() if "401" not in line]  # before the login
    assert refused == []
    loaded = console.script("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert all(name.startswith((console.url, "data:")) for name in loaded)
