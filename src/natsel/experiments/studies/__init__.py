"""Studies: experiments that learn no curve, each a small program with settings, findings, a plot and claims."""

from natsel.experiments.studies.registry import STUDIES as STUDIES
from natsel.experiments.studies.registry import Study as Study
