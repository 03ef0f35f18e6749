"""What is raised where this machine lacks what walls are made of."""


class CannotIsolate(Exception):
    """Says what is missing, and what to do."""
