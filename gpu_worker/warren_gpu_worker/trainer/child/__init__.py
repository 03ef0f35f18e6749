"""The child's half: models by id, what each op does to them, their files."""
