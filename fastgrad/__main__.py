"""``python -m fastgrad``: the command line."""

from .cli import main

main()
