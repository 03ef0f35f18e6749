"""Log lines of workers about runs, on their way to the logs of these runs."""
