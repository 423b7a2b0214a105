"""What everything above stands on: compiling and caching kernels, threads, tiling, memory.

This layer knows nothing of operators, programs or instructions. Importing it does not import Numba.
"""
