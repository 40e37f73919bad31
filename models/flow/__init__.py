"""The flow forecast: its network, its window, and the forecaster that serves it."""
