"""Evaluations as runs: what is evaluated, its results, and comparisons of several."""
