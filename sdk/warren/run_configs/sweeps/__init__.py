"""Sweeps: one config with several values for some keys, as a group of runs that are compared."""
