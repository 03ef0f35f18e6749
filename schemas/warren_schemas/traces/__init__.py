"""Trajectories as OpenEnv's TrainingTraces, both ways."""
