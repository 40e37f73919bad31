"""Watching a running system with Prometheus and Grafana."""
