"""One of everything that a package can add to hlotool: a backend, a command, a pass and a rule."""
