"""Parts of an expression, put into forms of other words."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp, parse_one

Change = Callable[[exp.Expr], exp.Expr]


def rewritten(node: exp.Expr, change: Change) -> exp.Expr:
    """The expression with each part changed, the innermost first. What ``change`` makes is not changed again."""
    made = node.copy()
    for part in list(made.iter_expressions()):
        part.replace(rewritten(part, change))
    return change(made)


# Each of these takes operands beside an operator or a keyword, and engines bind those with different strength.
_WITH_OPERANDS = (exp.Binary, exp.Unary, exp.Between, exp.In)
_WITHOUT_OPERATOR = (exp.Dot, exp.Func, exp.Escape, exp.Paren, exp.Kwarg)


def bracketed(node: exp.Expr) -> exp.Expr:
    """The expression with brackets around every operand, so that no engine's precedence decides what it means.

    >>> bracketed(parse_one("a IS NOT DISTINCT FROM b AND NOT c + 1 > 2")).sql()
    '(a IS NOT DISTINCT FROM b) AND (NOT ((c + 1) > 2))'
    """
    made = node.copy()
    for part in list(made.walk()):
        if part.parent is not None and _has_operands(part.parent) and _is_operation(part):
            brackets = exp.Paren()
            part.replace(brackets)
            brackets.set("this", part)
    return made


def _is_operation(node: exp.Expr) -> bool:
    return _has_operands(node) or isinstance(node, exp.Escape)


def _has_operands(node: exp.Expr) -> bool:
    connector = isinstance(node, exp.Connector)
    return connector or (isinstance(node, _WITH_OPERANDS) and not isinstance(node, _WITHOUT_OPERATOR))


def form(text: str, dialect: str) -> Callable[..., exp.Expr]:
    """A form with places for parts, such as ``CASE WHEN :x > 0 THEN LN(:x) END``.

    >>> form("CEIL(:x) + :n", "duckdb")(x=exp.column("a") * 2, n=exp.Literal.number(1)).sql()
    '(CEIL((a * 2)) + 1)'
    """
    read = parse_one(text, dialect=dialect)

    def filled(**parts: exp.Expr | None) -> exp.Expr:
        def part(node: exp.Expr) -> exp.Expr:
            given = parts.get(node.name) if isinstance(node, exp.Placeholder) else None
            return node if given is None else _apart(given.copy())

        made: exp.Expr = read.transform(part)
        return _apart(made)

    return filled


def _apart(node: exp.Expr) -> exp.Expr:
    """In brackets, unless nothing around it could take a part of it away."""
    whole = isinstance(node, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Placeholder | exp.Boolean | exp.Null)
    return node if whole and not isinstance(node, exp.Connector) else exp.paren(node)


def whole_number(node: exp.Expr | None) -> int | None:
    """A number that is written out, with its sign; None, if it is anything else."""
    if isinstance(node, exp.Paren):
        return whole_number(node.this)
    if isinstance(node, exp.Neg):
        inner = whole_number(node.this)
        return None if inner is None else -inner
    plain = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()
    return int(node.name) if plain and node is not None else None


def divided(node: exp.Div | exp.Mod | exp.IntDiv) -> exp.Expr:
    """A division that is null if it is by zero, where engines give infinity or end the query.

    A quotient is a double also of decimals, for which engines keep different numbers of digits.
    """
    ours, theirs = node.this, node.expression
    if isinstance(node, exp.Div):
        ours = exp.Mul(this=_apart(ours), expression=exp.Literal.number("1E0"))
    written = isinstance(theirs, exp.Literal) and not theirs.is_string and float(theirs.name) != 0
    theirs = theirs if written else exp.Nullif(this=theirs, expression=exp.Literal.number(0))
    return type(node)(this=ours, expression=theirs, **{k: v for k, v in node.args.items() if k in ("typed", "safe")})
