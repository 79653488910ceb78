"""``python -m fathom``: the command line, for where its folder is not on the path."""

from fathom.cli import main

main()
