"""Games of TextWorld, in the virtual environment `textworld`."""
