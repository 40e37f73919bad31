"""The metrics of a canary, from what the nodes export."""

import pytest
from rich.console import Console

from serve_app.cli.canary import (
    comparison_table,
    figures,
    read_metrics,
    scrape_nodes,
)
from tests.support.local_server import Answer, serving

PAGE = """\
# HELP ray_inference_predictions_total Predictions made
# TYPE ray_inference_predictions_total counter
ray_inference_predictions_total{OURS,policy="primary",states="",action="0"} 30.0
ray_inference_predictions_total{OURS,policy="primary",states="",action="1"} 10.0
ray_inference_predictions_total{OURS,policy="candidate",states="new",action="1"} 5.0
ray_inference_predictions_total{OURS,policy="candidate",states="old",action="1"} 90.0
ray_inference_predictions_total{application="other",policy="primary",states="",action="1"} 70.0
# TYPE ray_inference_observed_values_total counter
ray_inference_observed_values_total{OURS,policy="primary",range="inside"} 95.0
ray_inference_observed_values_total{OURS,policy="primary",range="outside"} 5.0
# TYPE ray_inference_shadow_steps_total counter
ray_inference_shadow_steps_total{OURS,states="new",outcome="agreed"} 6.0
ray_inference_shadow_steps_total{OURS,states="new",outcome="differed"} 2.0
ray_inference_shadow_steps_total{OURS,states="new",outcome="skipped"} 7.0
# TYPE ray_inference_entropy histogram
ray_inference_entropy_bucket{OURS,policy="candidate",states="new",le="+Inf"} 4.0
ray_inference_entropy_count{OURS,policy="candidate",states="new"} 4.0
ray_inference_entropy_sum{OURS,policy="candidate",states="new"} 1.0
""".replace("OURS", 'application="inference"')
USER_CONFIG = {"canary": {"mode": "shadow", "states": "new"}}


def test_nodes_are_added_up_by_policy():
    metrics = read_metrics([PAGE, PAGE], "inference")
    served, canary = figures(metrics["primary", ""]), figures(metrics["candidate", "new"])
    assert (served["decisions"], canary["decisions"]) == (80, 10)
    assert (served["mean_entropy_nats"], canary["mean_entropy_nats"]) == (None, 0.25)
    assert served["observed_out_of_range"] == pytest.approx(0.05)
    assert (canary["shadow_compared"], canary["shadow_agreement"]) == (16, 0.75)
    assert served["shadow_agreement"] is None


def test_a_table_compares_the_policies():
    console = Console(width=100)
    with console.capture() as capture:
        console.print(comparison_table(USER_CONFIG, read_metrics([PAGE], "inference")))
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in capture.get().splitlines()
        if "│" in line
    ]
    assert ["decisions", "40", "5"] in rows
    assert ["mean entropy nats", "-", "0.250"] in rows
    assert ["shadow agreement", "-", "0.750"] in rows
    assert ["shadow skipped", "0", "7"] in rows


def test_every_node_of_the_cluster_is_scraped_and_a_missing_one_reported(ray_api):
    """The dashboard, which Ray lists after the nodes, has no metrics of policies."""
    troubles: list[str] = []
    ray_api.nodes *= 2
    with serving(lambda request: Answer(200, PAGE.encode())) as url:
        ray_api.exporters = [url.removeprefix("http://"), "127.0.0.1:1", "127.0.0.1:2"]
        assert list(scrape_nodes(ray_api.dashboard, troubles.append)) == [PAGE]
    (trouble,) = troubles
    assert trouble.startswith("The metrics of the node at 127.0.0.1:1 are missing: ")
