"""Choose: the table of named methods, and the two verbs on it, score and select."""

from natsel.choose.methods import METHODS as METHODS
from natsel.choose.methods import Method as Method
from natsel.choose.methods import methods as methods
from natsel.choose.methods import register as register
from natsel.choose.methods import resolve as resolve
from natsel.choose.methods import unregister as unregister
from natsel.choose.select import score as score
from natsel.choose.select import select as select
from natsel.choose.selection import Explanation as Explanation
from natsel.choose.selection import Pick as Pick
from natsel.choose.selection import Selection as Selection
