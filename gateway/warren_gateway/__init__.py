"""The gateway: HTTP API, the store, the coordinator that drives runs, metrics."""
