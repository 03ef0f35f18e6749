"""Games of TextArena for one player, in the virtual environment `textarena`."""
