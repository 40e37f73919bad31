"""The processes of an instance: Ray, the edge, and what supervises both."""
