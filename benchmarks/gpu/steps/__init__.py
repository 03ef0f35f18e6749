"""What each kind of step does: a module of its name, with `run(setting, *words)`."""
