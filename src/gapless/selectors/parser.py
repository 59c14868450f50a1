"""From the text of a selector to its tree, or to an error that says what is wrong and where.

A precedence-climbing parser over the tokens. sqlglot has a parser too, but one that is meant to accept: it
drops what it normalises, guesses types and functions from names, and recurses without a limit. Here a text
is either in the language or an error, and the limits below bound the cost of everything that is later done
with the tree. From the loosest: ``OR``; ``AND``; ``NOT``; comparisons, ``BETWEEN``, ``IN``, ``LIKE`` and
``IS NULL``; ``+`` and ``-``; ``*`` and ``/``; signs.

Nonsense that shows in the text is an error rather than a condition that is never true: ``'a' + 1``, ``5 =
'x'``, ``flag < TRUE``, a bare string or number as a condition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from gapless.selectors.cursor import Cursor
from gapless.selectors.evaluation import kind
from gapless.selectors.lexer import END, KEYWORDS, NAME, NUMBER, QUOTED_NAME, STRING, Token
from gapless.selectors.like import segments
from gapless.selectors.tree import (
    And,
    Arithmetic,
    ArithmeticOp,
    Attribute,
    Between,
    CompareOp,
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
    Truth,
    Value,
)

DEPTH_MAX = 64
"""Parentheses, ``NOT`` and signs within each other."""
OPERATORS_MAX = 64
"""Arithmetic operators in one comparison."""
TERMS_MAX = 1024
"""Attributes and constants in a selector."""
DIGITS_MAX = 100
"""Digits of a number."""
PATTERN_MAX = 256
"""Characters of a ``LIKE`` pattern."""
PATH_MAX = 16
"""Names in the path of a nested attribute."""
NAME_MAX = 256
"""Characters in a name."""

_Node: TypeAlias = Condition | Expression

_LOOSEST, _OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN = range(8)
_BINDING = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "NOT", "BETWEEN", "IN", "LIKE", "IS"), _COMPARE),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/"), _PRODUCT),
}
_COMPARISONS: dict[str, CompareOp] = {"=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_ARITHMETIC: dict[str, ArithmeticOp] = {"+": "+", "-": "-", "*": "*", "/": "/"}
_EXPRESSIONS = (Literal, Attribute, Negative, Arithmetic)
_NO_VALUE = "a condition is no value; join conditions by AND and OR"
_KIND_NAMES = {str: "a string", bool: "a boolean", int: "a number"}


def parse(text: str) -> Condition:
    """The condition that the text is; blank text asks for nothing, so it is always true."""
    return _Parser(text).selector()


class _Parser(Cursor):
    """One pass over one text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = 0
        self.operators = 0
        self.terms = 0
        self.openings: dict[str, Callable[[Token, int], _Node]] = {
            "(": self.parenthesis,
            "NOT": self.negation,
            "+": self.sign,
            "-": self.sign,
        }

    # -- conditions and expressions -----------------------------------------------------------------------

    def selector(self) -> Condition:
        """The whole text."""
        if self.accept(END):
            return Truth(Literal(True))
        first = self.token
        condition = self.condition(self.parse(_LOOSEST), first)
        if self.token.kind == ")":
            self.fail("this parenthesis was not opened")
        self.expect(END, "an operator such as =, AND or OR")
        return condition

    def parse(self, binding: int) -> _Node:
        """What follows, up to an operator that does not bind tighter than ``binding``."""
        first = self.token
        node = self.operand(binding)
        while _BINDING.get(self.token.kind, _LOOSEST) > binding:
            if self.token.kind in ("AND", "OR"):
                node = self.chain(node, first)
            elif self.token.kind in _ARITHMETIC:
                node = self.arithmetic(node, first)
            else:
                node = self.predicate(self.expression(node, first), first)
                self.operators = 0
        return node

    def operand(self, binding: int) -> _Node:
        """A constant, an attribute, something in parentheses, or ``NOT`` or a sign and what belongs to it."""
        inner = self.openings.get(self.token.kind)
        if inner is None:
            return self.term()
        if self.depth == DEPTH_MAX:
            self.fail(f"nested more than {DEPTH_MAX} levels deep")
        self.depth += 1
        node = inner(self.take(), binding)
        self.depth -= 1
        return node

    def parenthesis(self, opening: Token, binding: int) -> _Node:
        """After ``(``. Beside an operator that wants values there can be only a value inside."""
        node = self.parse(_COMPARE if binding >= _COMPARE else _LOOSEST)
        if self.token.kind == END:
            self.fail("this parenthesis is not closed", opening)
        if self.token.kind in _BINDING:
            self.fail(_NO_VALUE, opening)
        self.expect(")", "an operator or )")
        return node

    def negation(self, word: Token, binding: int) -> Condition:
        """After ``NOT``."""
        if binding >= _COMPARE:
            self.fail(_NO_VALUE, word)
        first = self.token
        return Not(self.condition(self.parse(_NOT), first))

    def sign(self, sign: Token, _: int) -> Expression:
        """After ``+`` or ``-``. A number takes it; ``+x`` is ``- -x``, which is unknown for a string too."""
        if sign.kind == self.token.kind == "-" and sign.end == self.token.start:
            self.fail("there are no comments", sign)
        first = self.token
        operand = self.number_like(self.parse(_SIGN), first)
        if isinstance(operand, Literal) and not isinstance(operand.value, str):
            return Literal(-operand.value) if sign.kind == "-" else operand
        self.count_operator(sign)
        return Negative(operand) if sign.kind == "-" else Negative(Negative(operand))

    def chain(self, left: _Node, first: Token) -> Condition:
        """Operands joined by ``AND``, or by ``OR``, also with those that are so joined in parentheses."""
        joining = self.token.kind
        joined: type[And | Or] = And if joining == "AND" else Or
        operands: list[Condition] = []
        operand = self.condition(left, first)
        while True:
            operands += operand.operands if isinstance(operand, joined) else [operand]
            if not self.accept(joining):
                return joined(tuple(operands))
            first = self.token
            operand = self.condition(self.parse(_BINDING[joining]), first)

    def arithmetic(self, left: _Node, first: Token) -> Expression:
        """``left op right``."""
        if self.touches("-", "-") or self.touches("/", "*"):
            self.fail("there are no comments")
        operand = self.number_like(left, first)
        op = self.take()
        self.count_operator(op)
        first = self.token
        return Arithmetic(
            _ARITHMETIC[op.kind], operand, self.number_like(self.parse(_BINDING[op.kind]), first)
        )

    def count_operator(self, token: Token) -> None:
        """Bounds the size and depth of an expression."""
        self.operators += 1
        if self.operators > OPERATORS_MAX:
            self.fail(f"more than {OPERATORS_MAX} arithmetic operators in one comparison", token)

    # -- the kinds of condition ---------------------------------------------------------------------------

    def predicate(self, operand: Expression, first: Token) -> Condition:
        """A comparison or the like of ``operand``, from its operator on."""
        if self.accept("IS"):
            return self.null_test(operand, first)
        negated = self.accept("NOT")
        condition: Condition
        if self.accept("BETWEEN"):
            condition = self.between(operand)
        elif self.accept("IN"):
            condition = self.membership(operand)
        elif self.accept("LIKE"):
            condition = self.like(operand, first)
        elif negated:
            self.fail(f"expected BETWEEN, IN or LIKE, found {self.found()}")
        else:
            return self.comparison(operand, _COMPARISONS[self.take().kind])
        return Not(condition) if negated else condition

    def comparison(self, left: Expression, op: CompareOp) -> Condition:
        """After ``left op``."""
        if op == "=" and self.token.kind == "=":
            self.fail("equality is written with one =", self.last)
        return Comparison(op, left, self.comparable(left, ordered=op not in ("=", "<>")))

    def between(self, operand: Expression) -> Condition:
        """After ``operand BETWEEN``."""
        low = self.comparable(operand, ordered=True)
        self.expect("AND", "AND")
        first = self.token
        high = self.comparable(operand, ordered=True)
        self.check_alike(low, high, first)
        return Between(operand, low, high)

    def comparable(self, left: Expression, ordered: bool) -> Expression:
        """The expression that follows, to be compared with ``left``."""
        first = self.token
        right = self.expression(self.parse(_COMPARE), first)
        self.check_alike(left, right, first)
        if ordered and bool in (_kind(left), _kind(right)):
            self.fail("booleans have no order; only = and <> compare them", first)
        return right

    def membership(self, operand: Expression) -> Condition:
        """After ``operand IN``."""
        self.expect("(", "a list of values in parentheses")
        values: list[Value] = []
        while True:
            first = self.token
            if first.kind == QUOTED_NAME:
                self.fail("expected a value; a string is written in single quotes")
            value = self.operand(_SIGN)
            if not isinstance(value, Literal):
                self.fail("expected a string, a number, TRUE or FALSE", first)
            self.check_alike(operand, value, first)
            values.append(value.value)
            if not self.accept(","):
                break
        self.expect(")", "a comma or )")
        return In(operand, tuple(values))

    def like(self, operand: Expression, first: Token) -> Condition:
        """After ``operand LIKE``."""
        if not isinstance(operand, Attribute):
            self.fail("only an attribute can be LIKE a pattern", first)
        token = self.expect(STRING, "a pattern in single quotes")
        if len(token.text) > PATTERN_MAX:
            self.fail(f"the pattern has more than {PATTERN_MAX} characters", token)
        self.count_term(token)
        escape = None
        if self.accept("ESCAPE"):
            escape = self.expect(STRING, "one character in single quotes").text
            if len(escape) != 1:
                self.fail("the escape must be one character", self.last)
        try:
            segments(token.text, escape)
        except ValueError as error:
            self.fail(str(error), token)
        return Like(operand, token.text, escape)

    def null_test(self, operand: Expression, first: Token) -> Condition:
        """After ``operand IS``."""
        negated = self.accept("NOT")
        self.expect("NULL", "NULL")
        if not isinstance(operand, Attribute):
            self.fail("only an attribute can be tested for NULL", first)
        return Not(IsNull(operand)) if negated else IsNull(operand)

    # -- constants and attributes -------------------------------------------------------------------------

    def term(self) -> Expression:
        """A constant or an attribute."""
        token = self.token
        self.count_term(token)
        if token.kind == STRING:
            return Literal(self.take().text)
        if token.kind == NUMBER:
            return Literal(self.number(self.take(), ""))
        if self.touches(".", NUMBER):
            self.take()
            return Literal(self.number(self.take(), "."))
        if token.kind in ("TRUE", "FALSE"):
            return Literal(self.take().kind == "TRUE")
        if token.kind == "NULL":
            self.fail("NULL has no value; write IS NULL or IS NOT NULL")
        if token.kind not in (NAME, QUOTED_NAME):
            self.fail(f"expected an attribute or a value, found {self.found()}")
        return self.attribute()

    def count_term(self, token: Token) -> None:
        """Bounds the size of the tree."""
        self.terms += 1
        if self.terms > TERMS_MAX:
            self.fail(f"more than {TERMS_MAX:,} attributes and constants", token)

    def number(self, token: Token, before: str) -> int | float:
        """The value of a number, of which ``before`` has been passed already."""
        written = before + token.text
        if len(written) > DIGITS_MAX:
            self.fail(f"the number has more than {DIGITS_MAX} characters", token)
        if written.isdigit():
            return int(written)
        if before and "." in token.text:
            self.fail("this is not a number", token)
        value = float(written)
        if math.isinf(value):
            self.fail("the number is too large", token)
        return value

    def attribute(self) -> Attribute:
        """A name or a path of names."""
        path: list[str] = []
        while not path or self.accept("."):
            token = self.token
            if token.kind not in (NAME, QUOTED_NAME):
                hint = "; a reserved word needs double quotes" if token.kind in KEYWORDS else ""
                self.fail(f"expected a name after the dot, found {self.found()}{hint}")
            if not 0 < len(token.text) <= NAME_MAX:
                self.fail(f"a name has 1 to {NAME_MAX} characters")
            if len(path) == PATH_MAX:
                self.fail(f"the path has more than {PATH_MAX} names")
            path.append(self.take().text)
        if self.token.kind == "(":
            self.fail("there are no functions", self.last)
        return Attribute(tuple(path))

    # -- what may stand where -----------------------------------------------------------------------------

    def condition(self, node: _Node, first: Token) -> Condition:
        """The node where a condition is wanted: a boolean attribute or constant is one by itself."""
        if isinstance(node, Attribute) or (isinstance(node, Literal) and isinstance(node.value, bool)):
            return Truth(node)
        if isinstance(node, _EXPRESSIONS):
            self.fail(f"{_KIND_NAMES[_kind(node) or int]} is no condition; compare it with something", first)
        return node

    def expression(self, node: _Node, first: Token) -> Expression:
        """The node where a value is wanted."""
        if not isinstance(node, _EXPRESSIONS):
            self.fail(_NO_VALUE, first)
        return node

    def number_like(self, node: _Node, first: Token) -> Expression:
        """The node where a number is wanted."""
        expression = self.expression(node, first)
        common = _kind(expression)
        if common is not None and common is not int:
            self.fail(f"{_KIND_NAMES[common]} cannot be calculated with", first)
        return expression

    def check_alike(self, left: Expression, right: Expression, first: Token) -> None:
        """Rejects a comparison of two types that show in the text and differ."""
        one, two = _kind(left), _kind(right)
        if one is not None and two is not None and one is not two:
            self.fail(f"{_KIND_NAMES[one]} is never like {_KIND_NAMES[two]}", first)


def _kind(expression: Expression) -> type | None:
    """The type that an expression certainly has, when it has a value at all."""
    if isinstance(expression, Literal):
        return kind(expression.value)
    return None if isinstance(expression, Attribute) else int
