"""Inference: a trained policy is used like any other model, through the samplers' own queue.

served      names of models -> whose weights
asking      requests in the manner of OpenAI -> questions
questions   questions to the samplers, and their answers
telling     what the samplers answered -> bodies in the manner of OpenAI
"""
