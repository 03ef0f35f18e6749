"""What runs and their owners use: counted once, stored, told."""
