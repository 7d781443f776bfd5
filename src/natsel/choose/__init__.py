"""Choose: the named grid of objectives × searches, and the two verbs on it, score and select."""

from natsel.choose.registry import METHODS, Method, methods, resolve
from natsel.choose.selection import Explanation, Pick, Selection
from natsel.choose.verbs import score, select

__all__ = ["METHODS", "Explanation", "Method", "Pick", "Selection", "methods", "resolve", "score", "select"]
