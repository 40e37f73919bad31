"""The OpenAPI documents of the services, and the check that changes are compatible."""
