"""Reading the metrics of runs."""
