"""The control API: routes, request bodies, JSON Schema, OpenAPI."""
