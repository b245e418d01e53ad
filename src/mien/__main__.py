"""`python -m mien`."""

from mien.cli.main import main

if __name__ == "__main__":
    main()
