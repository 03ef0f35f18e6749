"""Inference: a trained policy is used like any other model, through the samplers' own queue.

served         names of models -> whose weights
names          names that their owners chose, and what they point to
pinning        which policy of a run a name can be pinned to
requests       requests in the manner of OpenAI -> questions
questions      questions to the samplers, and their answers
answers        what the samplers answered -> bodies in the manner of OpenAI
token_answers  the same in the manner of vLLM
"""
