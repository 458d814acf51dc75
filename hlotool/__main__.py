"""``python -m hlotool``."""

from hlotool.cli import main

main()
