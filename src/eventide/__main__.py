"""``python -m eventide``: the command line."""

from eventide.cli import main

if __name__ == "__main__":
    main()
