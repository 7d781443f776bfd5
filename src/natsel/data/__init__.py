"""Data: where examples come from, what has been done to them, and which of them have labels."""

from natsel.data.examples import Examples as Examples
