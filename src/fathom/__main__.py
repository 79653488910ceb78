"""``python -m fathom`` is the command ``fathom``."""

from fathom.cli import main

if __name__ == "__main__":
    main()
