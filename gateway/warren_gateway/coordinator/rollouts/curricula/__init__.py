"""Curricula: what a run trains on next follows from what its policy has solved.

learnability   how likely each level or task is, from counts alone
choice         which one a new group plays, and what a group that is closed tells
tags           what a step reports of it
"""
