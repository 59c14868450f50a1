"""Arithmetic on the numbers of events and selectors: exact, total and bounded.

*Exact:* integers have any size, and a quotient of integers is the fraction that it is (``7 / 2`` is 3.5,
``1 / 3 * 3`` is 1). An operation with a float gives a float. *Total:* what has no answer (something that is
no number, a division by zero, an overflow) is ``None``, unknown, never an exception. *Bounded:* operands
beyond ``OPERAND_BITS_MAX`` bits are refused as unknown, so that an expression over large integers, which an
event may hold, cannot grow without end.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from gapless.selectors.tree import ArithmeticOp

Number: TypeAlias = int | float | Fraction

OPERAND_BITS_MAX = 4096
"""Numerators, denominators and integers with more bits than this are not calculated with."""


def _operand(value: object) -> Number | None:
    """The number to calculate with: no boolean, no other type, nothing too large."""
    if type(value) is float:
        return value
    if type(value) is int:
        return value if value.bit_length() <= OPERAND_BITS_MAX else None
    if type(value) is Fraction:
        large = max(value.numerator.bit_length(), value.denominator.bit_length()) > OPERAND_BITS_MAX
        return None if large else value
    return None


def _total(operation: Callable[[Number, Number], Number]) -> Callable[[object, object], Number | None]:
    """The operation on values of any type, ``None`` where it has no answer."""

    def total(left: object, right: object) -> Number | None:
        first, second = _operand(left), _operand(right)
        if first is None or second is None:
            return None
        try:
            result = operation(first, second)
        except ArithmeticError:
            return None
        if type(result) is Fraction and result.denominator == 1:
            return result.numerator
        return result

    return total


def _quotient(left: Number, right: Number) -> Number:
    if type(left) is float or type(right) is float:
        return left / right
    return Fraction(left) / Fraction(right)


OPERATIONS: dict[ArithmeticOp, Callable[[object, object], Number | None]] = {
    "+": _total(lambda left, right: left + right),
    "-": _total(lambda left, right: left - right),
    "*": _total(lambda left, right: left * right),
    "/": _total(_quotient),
}
"""Every operator as a function of two values of any type; ``None`` is unknown."""


def negative(value: object) -> Number | None:
    """``-value``, unknown for what is no number."""
    number = _operand(value)
    return None if number is None else -number
