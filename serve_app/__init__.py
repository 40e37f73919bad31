"""Builders of the applications, settings, and the launcher."""
