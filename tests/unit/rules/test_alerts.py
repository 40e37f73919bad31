"""Each alert comes when it should, after its time, and stays away when all is well."""

from typing import Any

import pytest
import yaml

from tests.unit.rules.promtool import RULES, check

ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule
    for path in RULES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "alert" in rule
}
INF = 'le="+Inf", application="loans", route="/api/loans", method="GET"'
FALLBACKS = 'ray_gateway_fallbacks_total{application="gateway", cause="too_slow"}'
OF_DETECTORS = FALLBACKS.replace("too_slow", "detectors_failed")
ACTIONS = 'ray_gateway_actions_total{application="gateway", junction="1", signal="RED"}'
OPERATIONS = 'ray_customer_record_operations_total{application="loans", outcome="%s"}'
RACED = 'ray_inference_raced_rows_total{application="inference"}'
PREDICTIONS = 'ray_inference_predictions_total{application="inference"}'
OBSERVED = 'ray_inference_observed_values_total{application="inference", range="%s"}'
FAILED = (
    'ray_inference_failed_detectors_total{application="inference", junction="1", fault="stuck"}'
)
PREDICTED = 'ray_inference_predictions_total{application="inference", junction="1"}'
TARGET = 'ray_serve_autoscaling_target_replicas{application="flow", deployment="Flow"}'
HEALTHY = (
    'ray_serve_deployment_replica_healthy{application="flow", deployment="Flow", replica="%s"}'
)
SERVERS = 'haproxy_backend_%s_servers{job="edge", proxy="%s"}'
SHARD = 'application="inference", shard="0"'


def buckets(slow: str) -> dict[str, str]:
    """Return 1000 requests in each interval, of which some take a second."""
    name = (
        'ray_http_request_ms_bucket_total{application="loans", route="/x", status="200", le="%s"}'
    )
    return {name % "10": slow, name % "1000": "0+1000x80", name % "+Inf": "0+1000x80"}


def around(wrong: object, well: object, series: dict[str, str]) -> tuple[dict[str, str], ...]:
    """Return the series with the first value in place of ``{}``, and with the second."""
    return tuple(
        {name: values.format(value) for name, values in series.items()} for value in (wrong, well)
    )


# What happens, with what it looks like just before the bound. 100 more in 15 s are 6.7 a second.
CASES: dict[str, tuple[dict[str, str], ...]] = {
    "MetricsAway": around("1x10 0x80", "1x80", {'up{job="edge"}': "{}"}),
    "ServiceAway": (
        {SERVERS % ("active", "loans"): "1x9 0x71", SERVERS % ("backup", "loans"): "1x9 0x71"},
        {
            SERVERS % ("active", "loans"): "1x9 0x71",
            SERVERS % ("backup", "loans"): "1x80",
            SERVERS % ("active", "never deployed"): "0x80",
            SERVERS % ("backup", "never deployed"): "0x80",
        },
    ),
    "RequestsFail": (
        {
            f'ray_http_request_ms_bucket_total{{{INF}, status="200"}}': "0+97x80",
            f'ray_http_request_ms_bucket_total{{{INF}, status="503"}}': "0+3x80",
        },
        {
            f'ray_http_request_ms_bucket_total{{{INF}, status="200"}}': "0+99x80",
            f'ray_http_request_ms_bucket_total{{{INF}, status="503"}}': "0+1x80",
        },
    ),
    "RequestsSlow": (buckets("0+970x80"), buckets("0+995x80")),
    "PolicyAway": (
        {FALLBACKS: "0+6x80", ACTIONS: "0+100x80"},
        {FALLBACKS: "0+4x80", OF_DETECTORS: "0+50x80", ACTIONS: "0+100x80"},
    ),
    "BreakerOpen": around(2, 1, {'ray_gateway_breaker_state{application="gateway"}': "{}x80"}),
    "LoginsRefused": (
        {'ray_gateway_logins_total{application="gateway", outcome="401"}': "0+16x80"},
        {
            'ray_gateway_logins_total{application="gateway", outcome="401"}': "0+14x80",
            'ray_gateway_logins_total{application="gateway", outcome="success"}': "0+99x80",
        },
    ),
    "StatesNotCopied": around(
        60_001, 59_999, {f"ray_hidden_states_copy_lag_ms{{{SHARD}}}": "{}x80"}
    ),
    "StateActorRestarts": around(
        "1x9 2x9 3x9 4x49", "0x9 7x19 8x49", {f"ray_hidden_states_life{{{SHARD}}}": "{}"}
    ),
    "StatesNearCap": around(
        91,
        89,
        {
            f"ray_hidden_states{{{SHARD}}}": "{}x80",
            f"ray_hidden_states_allowed{{{SHARD}}}": "100x80",
        },
    ),
    "StepsRace": around(6, 4, {RACED: "0+{}x80", PREDICTIONS: "0+100x80"}),
    "RecordsFail": (
        {OPERATIONS % "unavailable": "0+2x80", OPERATIONS % "ok": "0+98x80"},
        {OPERATIONS % "unavailable": "0x80", OPERATIONS % "not_found": "0+98x80"},
    ),
    "InputsDrift": (
        {'ray_flow_input_drift{application="flow", feature="count"}': "0.3x400"},
        {'ray_density_input_drift{application="density", edge="a_to_b"}': "0.1x400"},
    ),
    "ObservationsDrift": (
        {OBSERVED % "outside": "0+30x400", OBSERVED % "inside": "0+70x400"},
        {OBSERVED % "outside": "0+10x400", OBSERVED % "inside": "0+90x400"},
    ),
    "DetectorsFail": around(60, 40, {FAILED: "0+{}x80", PREDICTED: "0+100x80"}),
    "ReplicasMissing": around(
        0, 1, {TARGET: "2x80", HEALTHY % "a": "1x80", HEALTHY % "b": "{}x80"}
    ),
    "MemoryFull": around(
        91,
        89,
        {'ray_node_mem_used_host{ip="n"}': "{}x80", 'ray_node_mem_total_host{ip="n"}': "100x80"},
    ),
}


@pytest.mark.parametrize("alert", sorted(ALERTS | CASES))
def test_it_fires_beyond_its_bound_after_its_time_and_not_before(alert, tmp_path):
    wrong, well = CASES[alert]
    fires = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    at = "45m" if ALERTS[alert].get("for") == "30m" else "16m"
    check(tmp_path, wrong, at, {fires: {"{}": 1}})
    check(tmp_path, well, at, {fires: {}})
    if "for" in ALERTS[alert]:
        check(tmp_path, wrong, "15s", {fires: {}})
