"""Data sets: uploaded by their owners, read by their runs."""
