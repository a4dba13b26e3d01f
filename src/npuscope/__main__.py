"""`python -m npuscope`: the command line."""

from npuscope.cli.main import console

if __name__ == "__main__":
    console()
