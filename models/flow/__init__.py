"""The flow forecast: its window, and the forecaster that serves it."""
