"""What the edge does with more predictions than the processors carry."""

import os
import re
import socket
import time

import httpx

from serve_app.processes.edge import AT_ONCE, WAITING, Edge
from tests.edge.conftest import Front, make_edge, running
from tests.edge.test_outages import assert_is_503_of_its_service, post
from tests.support.waiting import until

CORES = os.cpu_count() or 1
HUNG = (
    b"POST /predict_action HTTP/1.1\r\nHost: localhost\r\nX-Do: hang\r\nContent-Length: 2\r\n\r\n{}"
)


def waiting_at(edge: Edge) -> int:
    """Return how many predictions wait, as the edge reports."""
    metrics = httpx.get(f"http://127.0.0.1:{edge.instance.ports.edge_metrics}/metrics").text
    queues = re.findall(r'_current_queue\{proxy="inference-replicas".*\} (\d+)', metrics)
    return sum(map(int, queues))


def test_more_than_can_wait_is_refused_before_it_reaches_anybody_and_not_at_once(tmp_path):
    front = Front()

    def reached() -> int:
        return front.reached.count("POST /predict_action")

    with running(make_edge(tmp_path, front.server_port)) as edge:
        clients = [
            socket.create_connection(edge.listeners()["inference"], timeout=10)
            for _ in range((AT_ONCE + WAITING) * CORES)
        ]
        try:
            for client in clients:
                client.sendall(HUNG)
            # What comes before the last of the clients is in place takes that place, and waits.
            until(lambda: waiting_at(edge) >= WAITING * CORES, stalled_s=4)
            began = time.monotonic()
            answer = post(edge, "inference", "not found")
            assert 0.4 < time.monotonic() - began < 5
            assert_is_503_of_its_service(answer, "inference", unknown=False)
            until(lambda: reached() >= AT_ONCE * CORES, reached, 10)
            assert reached() == AT_ONCE * CORES
            assert post(edge, "gateway").status_code == 200  # which has separate places
        finally:
            for client in clients:
                client.close()
        until(lambda: post(edge, "inference").status_code == 200, stalled_s=10)
    front.close()
