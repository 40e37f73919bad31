"""What recording rules make of a little traffic."""

import pytest

from tests.unit.rules.promtool import check

BUCKET = "ray_http_request_ms_bucket_total"
ROUTE = 'application="loans", method="GET", route="/api/loans", status="200"'


def test_without_a_failure_the_share_of_failures_is_zero_and_not_absent(tmp_path):
    series = {f'{BUCKET}{{{ROUTE}, le="+Inf", replica="a"}}': "0+150x30"}
    check(
        tmp_path,
        series,
        "6m",
        {
            "greenwave:requests_failed:ratio5m": {'{application="loans"}': 0},
            "greenwave:requests:rate1m": {f"{{{ROUTE}}}": 10},
        },
    )


def test_a_single_failure_at_night_is_no_full_outage(tmp_path):
    failed = 'application="loans", method="GET", route="/x", status="503", le="+Inf"'
    series = {f"{BUCKET}{{{failed}}}": "0x12 1x20"}
    share = "greenwave:requests_failed:ratio5m > 0 < 0.01"
    check(tmp_path, series, "5m", {f"count({share})": {"{}": 1}})


def test_quantiles_are_of_all_replicas_and_routes_together(tmp_path):
    other = ROUTE.replace("/api/loans", "/api/loans/x")
    series = {
        f'{BUCKET}{{{ROUTE}, le="1", replica="a"}}': "0+50x30",
        f'{BUCKET}{{{ROUTE}, le="2", replica="a"}}': "0+50x30",
        f'{BUCKET}{{{ROUTE}, le="+Inf", replica="a"}}': "0+50x30",
        f'{BUCKET}{{{other}, le="1", replica="b"}}': "0x30",
        f'{BUCKET}{{{other}, le="2", replica="b"}}': "0+50x30",
        f'{BUCKET}{{{other}, le="+Inf", replica="b"}}': "0+50x30",
    }
    check(
        tmp_path,
        series,
        "6m",
        {
            "greenwave:request_ms:p50": {'{application="loans"}': 1},
            "greenwave:request_ms:p99": {'{application="loans"}': 1.98},
        },
    )


def test_states_of_a_shard_that_has_just_moved_are_counted_once(tmp_path):
    series = {
        'ray_hidden_states{application="inference", shard="0", WorkerId="before"}': "40x9",
        'ray_hidden_states{application="inference", shard="0", WorkerId="now"}': "41x9",
        'ray_hidden_states{application="inference", shard="1", WorkerId="other"}': "9x9",
    }
    kept = '{application="inference"}'
    check(tmp_path, series, "2m", {"greenwave:hidden_states:kept": {kept: 50}})


def test_replicas_are_missing_before_the_first_one_is_healthy(tmp_path):
    target = 'ray_serve_autoscaling_target_replicas{application="%s", deployment="%s"}'
    healthy = 'ray_serve_deployment_replica_healthy{application="flow", deployment="Flow"}'
    series = {target % ("flow", "Flow"): "2x9", target % ("loans", "Records"): "3x9"}
    name = '{application="%s", deployment="%s"}'
    expected = {name % ("flow", "Flow"): 1, name % ("loans", "Records"): 3}
    missing = {"greenwave:replicas:missing": expected}
    check(tmp_path, series | {healthy: "1x9"}, "2m", missing)


ACTIVE = 'haproxy_backend_active_servers{job="edge", proxy="%s"}'
BACKUP = ACTIVE.replace("active", "backup")
STATUS = 'ray_serve_application_status{application="%s"}'
RUNNING, FAILED, AWAY = "6x40", "6x9 1x31", "6x9 _x31"


@pytest.mark.parametrize(
    ("loans", "cards", "is_missed"),
    [
        (FAILED, RUNNING, True),
        (AWAY, AWAY, True),  # Serve itself is away
        ("_x40", RUNNING, True),  # the application has another name than the service
        ("6x9 4x31", RUNNING, False),
        ("6x9 4x3 _x27", RUNNING, False),
    ],
    ids=["failed", "Serve is away", "unknown name", "in deletion", "removed"],
)
def test_a_service_that_was_removed_is_not_missed_at_the_edge(tmp_path, loans, cards, is_missed):
    series = {
        ACTIVE % "loans": "1x9 0x31",
        BACKUP % "loans": "1x9 0x31",
        STATUS % "loans": loans,
        STATUS % "cards": cards,
    }
    servers = {'{job="edge", proxy="loans"}': 0.0} if is_missed else {}
    check(tmp_path, series, "9m", {"greenwave:edge_servers:up": servers})


def test_a_drift_has_one_name_for_the_columns_of_both_forecasts(tmp_path):
    series = {
        'ray_density_input_drift{application="density", edge="a", replica="x"}': "0.1x9",
        'ray_density_input_drift{application="density", edge="a", replica="y"}': "0.2x9",
        'ray_flow_input_drift{application="flow", feature="count"}': "0.3x9",
    }
    name = '{application="%s", column="%s"}'
    expected = {name % ("density", "a"): 0.2, name % ("flow", "count"): 0.3}
    check(tmp_path, series, "2m", {"greenwave:input_drift:share": expected})
