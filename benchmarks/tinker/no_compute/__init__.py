"""A deployment whose trainer and sampler compute nothing: all that is left of a step is the way there and back."""
