"""Training for any city: ``python -m models.training.city --help``, docs/training.md."""
