"""Games of GEM, in the virtual environment `gem`."""
