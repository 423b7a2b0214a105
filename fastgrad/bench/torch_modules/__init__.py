"""PyTorch's modules beside those of `fastgrad.torch`: `python -m fastgrad.bench.torch_modules`.

- ``blocks``: two blocks of networks, as PyTorch's users write them;
- ``tasks``: what is measured, for whichever modules it is given;
- ``stock``, ``fused``: whose modules they are, each imported in a process of its own;
- ``worker``: one such process, and ``kept``, which counts what it keeps for the backward;
- ``results``, ``report``: what came of it, and the numbers to reach.
"""
