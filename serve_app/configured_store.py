"""The store of the settings, for processes of the cluster."""

from __future__ import annotations

import ray

from deployments.store import Store, open_store
from serve_app.settings import Settings


def open_configured_store() -> Store:
    """Open the store in the process that uses it.

    Its URL may have a password, and Ray stores what is bound to a deployment.
    """
    return open_store(Settings().resolved_store_url)


def require_shared_store() -> None:
    """Refuse an embedded store on a cluster of several machines.

    Raises:
        ValueError: each machine would have separate records.
    """
    if Settings().embedded_store is None or not ray.is_initialized():
        return
    machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    if len(machines) > 1:
        raise ValueError(
            f"STORE_URL is an embedded store, but the cluster has {len(machines)} machines, and "
            "each would have separate records. Set STORE_URL=redis://… on every node."
        )
