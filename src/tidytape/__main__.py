"""``python -m tidytape`` is the command ``tidytape``, for an environment whose programs are not on the path."""

from tidytape.cli import main

if __name__ == "__main__":
    main()
