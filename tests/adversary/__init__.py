"""Attacks by the row: what is sent, where, what must be answered, and who is not disturbed."""
