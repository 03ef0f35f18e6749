"""The routes of the Tinker protocol, under `/api/v1`."""
