"""Walks over tiles: which elements a core computes, in which order, through which buffers.

A walk is written by hand; the body that it calls for each tile comes from a program. `tiles` is the
serial walk over a range of tiles, `launch` gives every core a range.
"""
