"""The instruction set: what one lane of the vector unit can do, and how tiles get in and out.

Importing this package imports nothing: generated kernels import the files that they need.
"""
