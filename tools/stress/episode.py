"""The process of one episode: ``python -m tools.stress.episode KIND SEED SECONDS``.

The last line that it prints is a JSON object of what it counted. It ends with exit code 1, and a traceback,
if it found a fault; so it does at any warning.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import signal
import sys
import warnings

import numpy as np

#: Modules of this package with ``episode(rng, seconds) -> Counter``; their order seeds them.
KINDS = ("operators", "crowd", "forks", "cache_faults")


def main(kind: str, seed: str, seconds: str) -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)  # how a deadline asks where it hangs
    warnings.simplefilter("error")
    rng = np.random.default_rng([int(seed), KINDS.index(kind)])
    module = importlib.import_module(f"tools.stress.{kind}")
    done = module.episode(rng, float(seconds))
    print(json.dumps({what: int(count) for what, count in done.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
