"""Episodes for each second of CPU: Warren, TRL's GRPO trainer and a bare torch loop, one recipe.

The task is reversing three digits in one turn (`task`), the recipe and the model are the same on
all sides (`recipe`), and a side is charged for every process it has (`meter`).
`python -m benchmarks.episodes` runs the sides one after the other and prints one table.
"""
