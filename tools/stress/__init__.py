"""Random operators, threads, forks and cache faults against references: `make stress`.

`__main__` draws episodes and shows what they find, `runner` gives each a process and a deadline, `episode`
is that process. The kinds are `operators`, `crowd`, `forks` and `cache_faults`. Random operators are made of
`programs` and `arrays`, and judged by `judge` with the reference in `duals` on `balls`.
"""
