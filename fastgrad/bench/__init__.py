"""Measuring: fastgrad beside its peers, each in a process of its own.

`python -m fastgrad.bench.compare` is the command. From the top down: `compare` runs what `arguments`
reads, `measure` interleaves the samples of the contenders, `pool` talks to the processes, `worker` is
what runs in each of them, and `contenders/` holds one file for each library that can take part.
`workloads` is the table of what is measured, `articles` that of the source articles' claims, `targets`
that of the numbers to reach. What was found (`results`) is shown by `report`, `picture` and `readme`;
`repeat` says what moved since another run.
"""
