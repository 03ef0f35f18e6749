"""From a name to a class, and what is read off it before anything of it is played: whether it can be, its config, what it tells of itself."""
