"""The canonical text of a condition: it parses to the same condition, and to equal text again.

One space around operators, keywords in capitals, parentheses only where they are needed, names in double
quotes only where they must be.
"""

from __future__ import annotations

from gapless.selectors.lexer import is_name
from gapless.selectors.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Comparison,
    Condition,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Path,
    Truth,
    Value,
)


def text_of(condition: Condition) -> str:
    """The condition as a selector."""
    match condition:
        case Or(operands):
            return " OR ".join(_grouped(operand, Or) for operand in operands)
        case And(operands):
            return " AND ".join(_grouped(operand, And, Or) for operand in operands)
        case Not(Between() | In() | Like() | IsNull() as operand):
            return _predicate(operand, "NOT ")
        case Not(operand):
            return f"NOT {_grouped(operand, And, Or)}"
        case _:
            return _predicate(condition, "")


def _grouped(condition: Condition, *looser: type[Condition]) -> str:
    """In parentheses if it is one of the looser kinds."""
    text = text_of(condition)
    return f"({text})" if isinstance(condition, looser) else text


def _predicate(condition: Comparison | Between | In | Like | IsNull | Truth, negation: str) -> str:
    match condition:
        case Comparison(op, left, right):
            return f"{_expression(left)} {op} {_expression(right)}"
        case Between(operand, low, high):
            return f"{_expression(operand)} {negation}BETWEEN {_expression(low)} AND {_expression(high)}"
        case In(operand, values):
            return f"{_expression(operand)} {negation}IN ({', '.join(map(_value, values))})"
        case Like(Attribute(path), pattern, escape):
            escaping = "" if escape is None else f" ESCAPE {_value(escape)}"
            return f"{_path(path)} {negation}LIKE {_value(pattern)}{escaping}"
        case IsNull(Attribute(path)):
            return f"{_path(path)} IS {negation}NULL"
        case Truth(operand):
            return _expression(operand)


def _expression(expression: Expression) -> str:
    match expression:
        case Literal(value):
            return _value(value)
        case Attribute(path):
            return _path(path)
        case Negative(operand):
            # a blank, because two signs in a row would look like a comment
            return f"-{' ' if isinstance(operand, Negative) else ''}{_operand(operand, '+-*/')}"
        case Arithmetic(op, left, right):
            looser, same = ("+-", "*/") if op in "*/" else ("", "+-")
            return f"{_operand(left, looser)} {op} {_operand(right, looser + same)}"


def _operand(expression: Expression, looser: str) -> str:
    """In parentheses if its operator is one of the looser ones."""
    text = _expression(expression)
    return f"({text})" if isinstance(expression, Arithmetic) and expression.op in looser else text


def _path(path: Path) -> str:
    return ".".join(name if is_name(name) else _quoted(name, '"') for name in path)


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        return _quoted(value, "'")
    return repr(value)


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace(quote, quote + quote) + quote
