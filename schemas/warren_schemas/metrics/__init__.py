"""Metrics of runs: their names, units and meaning, and their rows."""
