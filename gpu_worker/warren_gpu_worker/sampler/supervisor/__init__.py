"""The supervisor's half: turns from queues to the child process, and what comes back to the broker."""
