"""What accounts, loans and cards share: rules, errors, the service and its routes."""
