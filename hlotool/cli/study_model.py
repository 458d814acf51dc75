"""``hlotool study model``."""

import click

__all__ = ["model_command"]


@click.command("model")
def model_command() -> None:
    """Placeholder."""
