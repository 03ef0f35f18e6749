"""Processes for episodes, forked from one that has imported the environment.

fork_server        takes the supervisor's calls, and gives each episode a process
processes, pool    what each process does, and those that wait for their next episode
trial, stateless   episodes that have no process while they wait for the policy's words
episode_process    the fork server's side of one such process; forking: how it comes to be
within, in_turn    what runs in it: one episode after the other
supervisor, server the two conversations; told: what only the second one knows
task_loader        tasks, loaded once for all; waiting: episodes without a process; complaints: the log
fresh              what every episode finds alike: random state, memory to write to
leftovers          what an episode left behind: process_state, imports, global_state
"""
