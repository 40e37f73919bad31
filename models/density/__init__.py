"""The density forecast: the forecaster that serves it."""
