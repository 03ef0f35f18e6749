"""Users: what they may do, what they may have, and what they have used."""
