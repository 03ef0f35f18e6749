"""Tasks of Harbor, in the virtual environment `harbor`."""
