"""The public operators, NumPy in and NumPy out: check arguments, allocate, choose a kernel."""
