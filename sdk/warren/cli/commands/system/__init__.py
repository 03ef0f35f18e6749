"""Commands of the panel System."""
