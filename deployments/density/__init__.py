"""Density predictor, Variant A: five edges, the next hour from the last three."""
