"""``python -m hlotool``."""

from hlotool.cli import main

if __name__ == "__main__":  # processes that this one starts import it too
    main()
