"""Base models of yours: checked, uploaded, found again."""
