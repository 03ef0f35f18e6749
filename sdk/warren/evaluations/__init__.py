"""Evaluations as jobs: what is evaluated, its results, and comparisons of several."""
