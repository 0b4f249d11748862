"""`python -m limner` is the command `limner`."""

from limner.cli import app

if __name__ == "__main__":
    app(prog_name="limner")
