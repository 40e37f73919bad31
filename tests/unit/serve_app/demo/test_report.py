"""The demo compares like with like, and reports when the policy was away."""

from lab.sim.metrics import Metrics
from serve_app.demo.gateway_controller import Outage
from serve_app.demo.report import MAX_QUEUES, comparison_rows, outage_line


def test_an_outage_is_reported_with_its_reason():
    line = outage_line(Outage(27_000, 27_125, 7, "no answer"))
    assert line == "simulated 07:30:00 to 07:32:05: 7 decisions, no answer"


def test_rows_hold_one_value_per_controller_in_order_and_the_longest_queues():
    queues = {f"j{number}": float(number) for number in range(100)}
    results = [
        Metrics(3.0, 1.0, 2.0, 10, 9, queues),
        Metrics(7.0, 5.0, 6.0, 10, 8, queues),
    ]
    rows = dict(comparison_rows(results))
    assert rows["time loss (s)"] == [3.0, 7.0]
    shown = [label for label in rows if label.startswith("queue")]
    assert (len(shown), shown[0], rows[shown[0]]) == (MAX_QUEUES, "queue j99", [99.0, 99.0])
