"""Contenders side by side: what each took for the same load, and what is told of it."""
