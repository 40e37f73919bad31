"""Telemetry from replicas to open consoles, off the hot path."""
