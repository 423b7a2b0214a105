"""Profiling: where the time of a call goes, what the hot loop is, what is kept, what perf counts.

`python -m fastgrad.profile time|assembly|memory|hardware` is the command; `make profile`,
`profile-asm`, `profile-memory` and `profile-hw` call it. No kernel is instrumented: the product's
machine code is called in parts (without its launches, with no tiles to walk, on data in the cache,
with the clock read around each part), and the same walk is compiled once more with another body,
which moves the bytes and nothing else.

From the top down: `subject` is what is profiled, `launches` are the kernels that its call launches,
`shares` times them and their parts in turn, `moving` is the walk that only moves bytes, `balance`
sees what each core does (`parts` is its kernel, `call_walk` an instruction of it), `report` shows
all that. `assembly` finds the hot loop, `instructions`, `x86` and `arm` know what it consists of;
`memory` counts bytes beside autodiff, of which `composed` is the code; `hardware` counts by perf.
"""
