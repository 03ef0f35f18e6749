"""What the parts of the system say of the runs that they work for, on its way to these runs' logs."""
