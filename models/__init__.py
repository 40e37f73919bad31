"""Networks, their weights, and how they were made; imports neither Ray nor FastAPI."""
