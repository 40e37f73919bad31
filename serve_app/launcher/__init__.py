"""The command line: starts and stops an instance and its edge, deploys, keeps users and records."""
