"""What several machines that work on one model have in common: where they meet, and how one joins the worker of another."""
