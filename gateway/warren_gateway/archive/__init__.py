"""The archive: trajectories as files, for what should outlive its stream."""
