"""What runs recorded: how far it reaches, and what became of each episode."""
