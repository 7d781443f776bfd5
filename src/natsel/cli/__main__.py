"""`python -m natsel.cli` is `natsel`."""

import sys

from natsel.cli import main

if __name__ == "__main__":
    sys.exit(main())
