"""Following the events of runs: one reader of a stream for all who follow it here."""
