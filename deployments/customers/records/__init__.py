"""What accounts, loans and cards have in common: rules, errors, the service and its routes."""
