"""Measuring: fastgrad beside its peers, each in a process of its own.

`python -m fastgrad.bench.compare` is the command. From the top down: `compare` reads the arguments,
`measure` interleaves the samples of the contenders, `pool` talks to the processes, `worker` is what
runs in each of them, and `contenders/` holds one file for each library that can take part.
`workloads` is the table of what is measured; `targets` the table of the numbers to reach.
"""
