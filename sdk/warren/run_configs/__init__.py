"""Configs of runs that are written in a line: fine-tuning on a data set, answers to its prompts."""
