"""What runs and how it is started: builders, settings, command line, edge."""
