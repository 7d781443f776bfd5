"""Methods: the named grid of objectives × searches, and the two verbs on it, score and select."""

from natsel.methods.choose import score, select
from natsel.methods.registry import METHODS, Method, methods, resolve
from natsel.methods.selection import Explanation, Pick, Selection

__all__ = ["METHODS", "Explanation", "Method", "Pick", "Selection", "methods", "resolve", "score", "select"]
