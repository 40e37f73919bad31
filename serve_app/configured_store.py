"""The store of the settings, for whoever runs in the cluster."""

from __future__ import annotations

import ray

from deployments.store import Store, open_store
from serve_app.settings import Settings


def open_configured_store() -> Store:
    """Open the store where it is used: its URL may hold a password, and Ray keeps what is bound to
    a deployment."""
    return open_store(Settings().resolved_store_url)


def require_shared_store() -> None:
    """Refuse an embedded database when its replicas would run on several machines.

    Raises:
        ValueError: each machine would keep records of its own.
    """
    url = Settings().resolved_store_url
    if not url.startswith("sqlite") or not ray.is_initialized():
        return
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if len(machines) > 1:
        raise ValueError(
            f"STORE_URL is an embedded database, but the cluster has {len(machines)} machines, and "
            "each would keep records of its own; set STORE_URL=redis://… on every node"
        )
