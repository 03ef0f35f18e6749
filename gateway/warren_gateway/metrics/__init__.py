"""Metrics: from the events of each run to `metrics.jsonl` and TensorBoard files."""
