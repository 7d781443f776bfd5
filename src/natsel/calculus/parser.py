"""Parser: from the way a quantity is written in a paper to an expression, or to an error that points at the column.

    statement   := sum (("=" | "==" | "<=" | "≤" | ">=" | "≥" | "!=" | "≠") sum)?
    sum         := term (("+" | "-") term)*
    term        := factor (("*" | "·" | "/")? factor)*                  all but one of the factors are numbers
    factor      := number | "-" factor | "(" sum ")" | quantity
    quantity    := H sub? "[" group ("|" group)? "]"                    H[X,y|Z], H_q[X], H_{p||q}[X]
                 | (I | TC) sub? "[" group (";" group)+ ("|" group)? "]"
                 | (H | KL | D | D_KL) "(" law "‖" law+ ")"             H(p(X)) is H[X]; several laws: their product
                 | "h" "(" sum ")"                                      −ln of a number
                 | "E_" law "[" sum "]"                                 E_{p(x|y)}[…], E_p(x|y)[…]
    law         := name ("(" group ("|" group)? ")")?
    group       := atom ("," atom)*
    atom        := name ("=" outcome)?                                  X untied, x and X=3 and X="cat" tied

Spec 01, A1.
"""

from natsel.calculus.expressions import Expression, Statement
from natsel.calculus.grammar import Grammar
from natsel.calculus.scanner import ParseError

__all__ = ["ParseError", "parse", "parse_statement"]

_RELATIONS = {"==": "=", "=": "=", "<=": "<=", "≤": "<=", ">=": ">=", "≥": ">=", "!=": "!=", "≠": "!="}


def parse(text: str) -> Expression:
    """The expression that a text writes.

    >>> str(parse("I[Y₁;Ω|x] − 1/2 H[y]"))
    'I[Y1; Omega | x] - 1/2 H[y]'
    """
    reader = Grammar(text)
    expression = reader.sum()
    relation = reader.column
    if reader.takes(*_RELATIONS):
        raise reader.error(
            "this is a statement, and one quantity was expected; use parse_statement or verify", relation
        )
    reader.end('"+", "-" or the end')
    return expression


def parse_statement(text: str) -> Statement | Expression:
    """A statement `left = right` (or <=, >=, !=), or the expression where the text has no relation.

    >>> str(parse_statement("I[X;Y] ≥ 0"))
    'I[X; Y] >= 0'
    """
    reader = Grammar(text)
    left = reader.sum()
    relation = reader.takes(*_RELATIONS)
    if relation is None:
        reader.end('"+", "-", a relation (=, <=, >=, !=) or the end')
        return left
    right = reader.sum()
    reader.end('"+", "-" or the end (a statement has one relation)')
    return Statement(left, _RELATIONS[relation], right)
