"""Games of foreign packages as text: what all of them share, whichever package plays.

forms        how an action is read from the policy's words
templates    texts with fields, as a run's config writes them
settings     `text` of a run's config: the form of an action, what follows where there is none, what is shown
screen       what the policy is shown in each turn
environment  the base class: an episode in its package's process, played by what is read and shown here
"""
