"""What a run streams: its events and its trajectories, read each once and in order, and written to files."""
