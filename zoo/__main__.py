"""The module that `python -m zoo` runs."""

from zoo.cli import main

if __name__ == "__main__":
    main()
