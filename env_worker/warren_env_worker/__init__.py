"""The env worker: hosts environments and takes the environment's turn in every episode."""
