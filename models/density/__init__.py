"""The density forecast: its network, and the forecaster that serves it."""
