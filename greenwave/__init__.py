"""What users of a running Greenwave install: the client."""
