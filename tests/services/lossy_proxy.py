"""A proxy that passes every request on, and loses some of the answers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx

from tests.support.local_server import Answer, Request, serving

LENGTH = "inference-header-content-length"
PASSED_ON = ("content-type", "idempotency-key", "x-simulation-run", "authorization", LENGTH)
RETURNED = ("content-type", "x-hidden-state-step", "x-error-code", LENGTH)


@dataclass
class LossyProxy:
    """A running proxy.

    Attributes:
        asked: requests of its path.
    """

    url: str = ""
    asked: int = 0


@contextmanager
def losing(upstream: str, path: str, loses: Callable[[int], bool]) -> Iterator[LossyProxy]:
    """Run a proxy before a URL.

    Args:
        loses: returns whether the answer to the n-th request of this path, from 1, is lost.
    """
    proxy, lock = LossyProxy(), threading.Lock()

    def pass_on(request: Request) -> Answer | None:
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        answer = client.post(request.path, content=request.body, headers=headers)
        if request.path == path:
            with lock:
                proxy.asked += 1
                number = proxy.asked
            if loses(number):
                return None
        kept = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
        return Answer(answer.status_code, answer.content, kept)

    with httpx.Client(base_url=upstream, timeout=10) as client, serving(pass_on) as proxy.url:
        yield proxy
