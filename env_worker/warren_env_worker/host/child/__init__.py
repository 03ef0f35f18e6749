"""What runs in the child process: user code, one call at a time."""
