"""Samples that clients of Tinker's protocol ask for, and come for later.

futures      one of them, or all of a sampler's, as the routes take it
answering    those that this gateway has asked the samplers for
turns        those that were refused, and come again
unfetched    outcomes that clients have not come for yet
clients      those that are gone, whose samples end
polls        clients that wait for all of a sampler's at once
rows         all of them, in the store
completions  which of a sampler's are done, in their order
"""
