"""Runs over HTTP: submitted and listed, followed, and all that they leave."""
