"""What is read off a class before anything of it is played: whether it can be, its config, what it tells of itself."""
