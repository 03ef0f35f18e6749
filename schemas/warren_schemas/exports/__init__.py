"""Trajectories as tables for analysts: the same columns as parquet and as JSON lines."""
