"""Imitation: a policy learns what a planner decides that sees every vehicle."""
