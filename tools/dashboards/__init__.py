"""Grafana's dashboards: a module describes each, and the package writes them as JSON."""
