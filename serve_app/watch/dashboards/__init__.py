"""Grafana's dashboards, each described by a module, and written as JSON by the package."""

"them."
