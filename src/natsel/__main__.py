"""`python -m natsel` is `natsel`."""

import sys

from natsel.cli import main

if __name__ == "__main__":
    sys.exit(main())
