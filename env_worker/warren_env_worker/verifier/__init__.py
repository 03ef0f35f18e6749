"""Is this answer the right one? Mathematical answers, compared where nothing can hang or hurt.

verdict      how a comparison may end without an outcome; verdicts are in `warren.host_services`
extraction   from a model's words to its answer
exact        answers that need no algebra: the same text, the same number
hazard       answers that nobody should evaluate
checking     algebra (math-verify), in a process that may die
worker       the process that forks such processes, times and kills them
golds        right answers that nothing can be compared with
pool         several of those, and the deadline for everything
verifier     all of it behind one call
"""
