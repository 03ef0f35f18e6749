"""Commands of the panel Runs."""
