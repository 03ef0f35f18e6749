"""What several machines that work on one model have in common: where they meet, and how one lends its devices."""
