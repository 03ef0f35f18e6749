"""Programs for the Python of a foreign package; nothing here imports anything of Warren's.

fork_server         imports the package once, and forks a process for each episode
alfworld_episode    games of ALFWorld, which alfworld_games makes and alfworld_expert can win
gem_episode         games of GEM
harbor_episode      trials of Harbor's tasks, with harbor_shell, an agent, and harbor_box, a container
inspect_ai_episode  samples of Inspect's tasks, with inspect_box, a sandbox
box                 what both of these boxes are: a connection to the process 1 of one
gymnasium_episode   episodes of Gymnasium and MiniGrid as text
textarena_episode   games of TextArena for one player
textworld_episode   games of TextWorld, which it makes
verifiers_episode   tasksets of verifiers, and verifiers_v0_episode its older environments
"""
