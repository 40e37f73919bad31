"""Configurations of Serve's front, rendered by Ray's own code."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from ray.serve._private.haproxy import BackendConfig, HAProxyApi, HAProxyConfig, ServerConfig
from ray.serve.config import HTTPOptions

from load_tests.harness.shipped import ROOT

METRICS_PORT, STATS_PORT = 9101, 8404
BALANCE = "RAY_SERVE_HAPROXY_BALANCE_ALGORITHM"


def variables_of(config: str) -> dict[str, str]:
    """Return the variables that a shipped config sets for Serve."""
    text = (ROOT / config).read_text(encoding="utf-8")
    found: dict[str, str] = yaml.safe_load(text)["controller_options"]["runtime_env"]["env_vars"]
    return found


def rendered(folder: Path, port: int, backends: Iterable[BackendConfig], **options: Any) -> Path:
    """Write the configuration for backends as Serve does with ``serve_config.yaml``."""
    config = folder / "haproxy.cfg"
    settings = {
        "metrics_port": METRICS_PORT,
        "stats_port": STATS_PORT,
        "balance_algorithm": variables_of("serve_config.yaml")[BALANCE],
        **options,
    }
    written = HAProxyConfig(
        http_options=HTTPOptions(host="127.0.0.1", port=port),
        socket_path=str(folder / "admin.sock"),
        server_state_base=str(folder),
        server_state_file=str(folder / "server-state"),
        metrics_socket_path=str(folder / "metrics.sock"),
        **settings,
    )
    named = {each.name: each for each in backends}
    HAProxyApi(written, named, str(config))._generate_config_file_internal()
    return config


def backend(
    application: str, prefix: str, names: Iterable[str], ports: Iterable[int]
) -> BackendConfig:
    """Return an application with replicas of these names, in this order, at these ports."""
    return BackendConfig(
        name=f"http{prefix.replace('/', '-')}-{application}",
        path_prefix=prefix,
        app_name=application,
        servers=[
            ServerConfig(f"SERVE_REPLICA_{application}-Some-{name}", "127.0.0.1", port)
            for name, port in zip(names, ports, strict=True)
        ],
        fallback_server=ServerConfig("SERVE_PROXY_ACTOR-fallback", "127.0.0.1", 8500),
    )
