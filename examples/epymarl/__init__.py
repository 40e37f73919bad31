"""EPyMARL trains policies for any network that the service runs."""
