"""Games of ALFWorld, in the virtual environment `alfworld`."""
