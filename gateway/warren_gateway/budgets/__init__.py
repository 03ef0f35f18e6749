"""What owners share of a gateway, and how much of it one of them may take."""
