"""Density predictor, Variant B: vehicle flow at a junction in the next fifteen minutes."""
