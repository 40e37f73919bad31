"""Examples: other software that uses the project's models and simulation."""
