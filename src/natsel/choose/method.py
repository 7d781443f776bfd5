"""A method is an objective, read from a belief, maximised by a search.

Which pairs are legal follows from what the objective's state offers on the belief and what the search needs.
"""

from dataclasses import dataclass

from natsel.beliefs import Belief
from natsel.capabilities import Capability, Search
from natsel.objectives import SERVES, Facts, Objective, offers


@dataclass(frozen=True)
class Method:
    """An objective and a search, with where the pair comes from.

    >>> from natsel.objectives import EIG
    >>> from natsel.search import Power
    >>> Method(objective=EIG(), search=Power(beta=8)).facts.quantity
    'I[Y;W|x]'
    """

    objective: Objective
    search: Search
    name: str = "unnamed"
    aliases: tuple[str, ...] = ()
    source: str = ""
    note: str = ""

    @property
    def facts(self) -> Facts:
        """What the objective needs and guarantees."""
        return self.objective.facts

    @property
    def beliefs(self) -> tuple[type[Belief], ...]:
        """The kinds of belief the method runs on."""
        kinds = [belief for objective, belief in SERVES if objective is type(self.objective)]
        return tuple(belief for belief in kinds if not missing(self, belief))


def missing(method: Method, belief: type[Belief]) -> Capability:
    """What the search needs and the objective's state on this belief does not offer."""
    return method.search.needs & ~(offers(type(method.objective), belief) or Capability(0))
