"""The services' OpenAPI documents: what is committed of them, and which changes clients survive."""
