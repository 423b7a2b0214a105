"""Vector programs: traced from a line of maths, differentiated, optimised, scheduled, compiled.

`trace` makes an expression of a function, `derive` its derivative, `optimize` and `tails` rewrite
it, `Program` is the list of vector instructions that it becomes, and `schedule`, `interpret`,
`emit` and `listing` are the four readers of that list.
"""
