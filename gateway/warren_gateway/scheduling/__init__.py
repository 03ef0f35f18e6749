"""Which job gets a trainer next."""
