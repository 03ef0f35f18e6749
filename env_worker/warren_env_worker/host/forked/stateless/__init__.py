"""Episodes that wait for the policy without a process: whether a class may, and how they are played."""
