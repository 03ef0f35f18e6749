"""The lease of the model: who trains it, who is asked next, and when it is given back."""
