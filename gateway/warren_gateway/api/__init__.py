"""The HTTP API: a route table, from which both the app and its OpenAPI document are made."""
