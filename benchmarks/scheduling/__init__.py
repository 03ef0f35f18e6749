"""How long the scheduler takes to decide, and how fair a day of its decisions is."""
