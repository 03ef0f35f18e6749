"""What every worker is made of: child processes, heartbeats, stopping in good order."""
