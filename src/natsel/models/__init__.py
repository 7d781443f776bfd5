"""Models that believe: anything that can be fitted and then says, from consistent draws, what it expects."""

from natsel.models.protocol import Model as Model
