"""Tasks of Inspect, in the virtual environment `inspect_ai`."""
