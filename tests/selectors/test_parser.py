"""Texts that are selectors and the trees they make; texts that are not, and what the error says."""

from __future__ import annotations

import pickle

import pytest

from gapless.selectors import (
    DEPTH_MAX,
    DIGITS_MAX,
    NAME_MAX,
    OPERATORS_MAX,
    PATH_MAX,
    PATTERN_MAX,
    TERMS_MAX,
    TEXT_MAX,
    SelectorError,
)
from gapless.selectors.parser import parse
from gapless.selectors.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Comparison,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Truth,
)

X = Attribute(("x",))
Y = Attribute(("y",))
A, B, C = (Truth(Attribute((name,))) for name in "abc")


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("", Truth(Literal(True))),
        (" \n\t", Truth(Literal(True))),
        ("TRUE", Truth(Literal(True))),
        ("x", Truth(X)),
        ("((x))", Truth(X)),
        ("x = 5", Comparison("=", X, Literal(5))),
        ("5 <> x", Comparison("<>", Literal(5), X)),
        ("x<=y", Comparison("<=", X, Y)),
        ("x = 'it''s'", Comparison("=", X, Literal("it's"))),
        ("x = ''", Comparison("=", X, Literal(""))),
        (r"x = 'a\'", Comparison("=", X, Literal("a\\"))),
        (
            "x = '-- no /* comment */ \U0001f600'",
            Comparison("=", X, Literal("-- no /* comment */ \U0001f600")),
        ),
        ("x = 'two\nlines'", Comparison("=", X, Literal("two\nlines"))),
        ("x = -5", Comparison("=", X, Literal(-5))),
        ("x = - -5", Comparison("=", X, Literal(5))),
        ("x = +5", Comparison("=", X, Literal(5))),
        ("-x < 1", Comparison("<", Negative(X), Literal(1))),
        ("+x < 1", Comparison("<", Negative(Negative(X)), Literal(1))),
        (
            "x > 1 + 2 * y",
            Comparison(">", X, _sum := Arithmetic("+", Literal(1), Arithmetic("*", Literal(2), Y))),
        ),
        ("(1 + (2 * y)) < x", Comparison("<", _sum, X)),
        ("x - 1 - y = 0", Comparison("=", Arithmetic("-", Arithmetic("-", X, Literal(1)), Y), Literal(0))),
        ("-x * y = 0", Comparison("=", Arithmetic("*", Negative(X), Y), Literal(0))),
        ("x BETWEEN 1 AND 2", Between(X, Literal(1), Literal(2))),
        ("x not between 1 and y + 1", Not(Between(X, Literal(1), Arithmetic("+", Y, Literal(1))))),
        ("x In (1, -2, 'a', tRUe)", In(X, (1, -2, "a", True))),
        ("x NOT IN ('a')", Not(In(X, ("a",)))),
        ("x + 1 IN (2)", In(Arithmetic("+", X, Literal(1)), (2,))),
        ("x LIKE 'a%'", Like(X, "a%")),
        ("x NOT LIKE 'a!_%' ESCAPE '!'", Not(Like(X, "a!_%", "!"))),
        ("x IS NULL", IsNull(X)),
        ("x is not null", Not(IsNull(X))),
        ("a AND b OR c", Or((And((A, B)), C))),
        ("a OR b AND c", Or((A, And((B, C))))),
        ("a AND (b AND c)", And((A, B, C))),
        ("(a OR b) OR c", Or((A, B, C))),
        ("a AND (b OR c)", And((A, Or((B, C))))),
        ("NOT a AND b", And((Not(A), B))),
        ("NOT NOT a", Not(Not(A))),
        ("NOT x = 5", Not(Comparison("=", X, Literal(5)))),
        ("not(a)or b", Or((Not(A), B))),
        ("x BETWEEN 1 AND 2 AND a", And((Between(X, Literal(1), Literal(2)), A))),
        ("TRUE AND FALSE", And((Truth(Literal(True)), Truth(Literal(False))))),
        ("x = TRUE", Comparison("=", X, Literal(True))),
    ],
)
def test_tree(text: str, condition: Condition) -> None:
    assert parse(text) == condition


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("007", 7),
        (str(2**64 + 1), 2**64 + 1),
        ("9" * DIGITS_MAX, int("9" * DIGITS_MAX)),
        ("7.", 7.0),
        (".5", 0.5),
        ("1E3", 1000.0),
        ("1.5e-3", 0.0015),
        (".5e+1", 5.0),
        ("2.e2", 200.0),
    ],
)
def test_number(text: str, value: float) -> None:
    assert parse(f"x = {text}") == Comparison("=", X, Literal(value))


@pytest.mark.parametrize(
    "name",
    [
        "type",
        "value",
        "order",
        "group",
        "key",
        "date",
        "time",
        "user",
        "left",
        "count",
        "any",
        "case",
        "select",
    ],
)
def test_words_of_other_languages_are_names(name: str) -> None:
    assert parse(f"{name} = 1") == Comparison("=", Attribute((name,)), Literal(1))
    assert parse(f"x = {name.upper()} AND a") == And((Comparison("=", X, Attribute((name.upper(),))), A))
    assert parse(f"{name}.{name} IS NULL") == IsNull(Attribute((name, name)))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("desk.region", ("desk", "region")),
        ("desk . region", ("desk", "region")),
        ('"desk.region"', ("desk.region",)),
        ('"and"."say ""hi"""', ("and", 'say "hi"')),
        ("_a1$", ("_a1$",)),
        ("$b", ("$b",)),
        ("größe.数", ("größe", "数")),
        ("Null_", ("Null_",)),
    ],
)
def test_attribute_names(text: str, path: tuple[str, ...]) -> None:
    assert parse(f"{text} = 1") == Comparison("=", Attribute(path), Literal(1))


def test_equality_of_trees_tells_types_apart() -> None:
    texts = ["x = 1", "x = 1.0", "x = TRUE", "x IN (1)", "x IN (1.0)", "x IN (TRUE)", "x IN (1, 1)"]
    assert len({parse(text) for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("x == 5", 3, "one ="),
        ("x != 5", 3, "<>"),
        ("x && y", 3, "AND"),
        ("x || y = 'a'", 3, "OR"),
        ("!x", 1, "NOT"),
        ("x % 2 = 1", 3, "remainder"),
        ("x = ?", 5, "parameters"),
        ("x = :y", 5, "parameters"),
        ("x = @y", 5, "parameters"),
        ("x::int = 1", 2, "casts"),
        ("x[1] = 1", 2, "path"),
        ("`x` = 1", 1, "double quotes"),
        ("x = 1;", 6, "one condition"),
        ("x = 1 # y", 7, "comments"),
        ("x = 1 -- y", 7, "comments"),
        ("-- y", 1, "comments"),
        ("x = --1", 5, "comments"),
        ("x /* y */ = 1", 3, "comments"),
        ("/* y */ x = 1", 1, "found /"),
        ("{# y #} x = 1", 1, "comments"),
        ("x = 1 {# y", 7, "comments"),
        ("lower(x) = 'a'", 1, "functions"),
        ("EXISTS (x)", 1, "functions"),
        ("x = CAST(y AS int)", 5, "functions"),
        ("x = (SELECT 1)", 13, "operator or )"),
        ("CASE WHEN x THEN y END", 6, "operator"),
        ("x = DATE '2020-01-01'", 10, "operator"),
        ("x = INTERVAL '1' DAY", 14, "operator"),
        ("x = N'a'", 5, "before its quote"),
        ("x = X'00'", 6, "operator"),
        ("x ILIKE 'a'", 3, "operator"),
        ("x SIMILAR TO 'a'", 3, "operator"),
        ("x = ANY (y)", 5, "functions"),
        ("x IS TRUE", 6, "expected NULL"),
        ("x = NULL", 5, "IS NULL"),
        ("x IN (NULL)", 7, "IS NULL"),
        ("5 IS NULL", 1, "only an attribute"),
        ("x = 'abc", 5, "not closed"),
        ("x = 'abc''", 5, "not closed"),
        ('"x = 1', 1, "not closed"),
        ("(x = 1", 1, "not closed"),
        ("x = 1)", 6, "not opened"),
        ("()", 2, "found )"),
        ("x =", 4, "found the end"),
        ("x AND", 6, "found the end"),
        ("= 5", 1, "found ="),
        ("x NOT 5", 7, "BETWEEN, IN or LIKE"),
        ("x NOT IS NULL", 7, "BETWEEN, IN or LIKE"),
        ("x y", 3, "operator"),
        ("x = 5a", 5, "not a number"),
        ("x = 0x1F", 5, "not a number"),
        ("x = 1_000", 5, "not a number"),
        ("x = 1e", 5, "not a number"),
        ("x = .5.5", 6, "not a number"),
        ("x = 1..2", 7, "operator"),
        ("x = 1e999", 5, "too large"),
        ("a..b = 1", 3, "after the dot"),
        ("a.and = 1", 3, "double quotes"),
        ('"" = 1', 1, "1 to"),
        ("a. = 1", 4, "after the dot"),
        ("x LIKE 5", 8, "pattern"),
        ('x LIKE "a"', 8, "single quotes"),
        ("'a' LIKE 'a'", 1, "attribute"),
        ("x LIKE 'a!b' ESCAPE '!'", 8, "before %, _ or itself"),
        ("x LIKE 'a!' ESCAPE '!'", 8, "before %, _ or itself"),
        ("x LIKE 'a' ESCAPE '!!'", 19, "one character"),
        ("x LIKE 'a' ESCAPE ''", 19, "one character"),
        ('x IN ("a")', 7, "single quotes"),
        ("x IN (y)", 7, "expected a string"),
        ("x IN ()", 7, "found )"),
        ("x IN (1,)", 9, "found )"),
        ("x IN 1", 6, "list of values"),
        ("x IN (1 + 1)", 9, "comma"),
        ("x BETWEEN 1", 12, "expected AND"),
        ("x BETWEEN 1 OR 2", 13, "expected AND"),
        ("1 < x < 5", 1, "no value"),
        ("(x = 1) = TRUE", 1, "no value"),
        ("x + (y = 1) > 0", 5, "no value"),
        ("x = NOT y", 5, "no value"),
        ("'a'", 1, "no condition"),
        ("5", 1, "no condition"),
        ("x AND 5", 7, "no condition"),
        ("NOT 5", 5, "no condition"),
        ("x + 1", 1, "no condition"),
        ("'a' + 1 > 2", 1, "cannot be calculated"),
        ("x = TRUE + 1", 5, "cannot be calculated"),
        ("x = -'a'", 6, "cannot be calculated"),
        ("5 = 'a'", 5, "never"),
        ("x * 2 = 'a'", 9, "never"),
        ("x BETWEEN 1 AND 'z'", 17, "never"),
        ("x + 1 IN (1, 'a')", 14, "never"),
        ("x < TRUE", 5, "no order"),
        ("x BETWEEN FALSE AND TRUE", 11, "no order"),
        ("x = 1\0", 6, "null character"),
        ("x = '\ud800'", 6, "surrogate"),
        ("\U0001f600 = 1", 1, "not part of the language"),
        ("a\u2260b", 2, "not part of the language"),
        ("x\xa0= 1", 2, "not part of the language"),
        ("x \u0131s NULL", 3, "not part of the language"),
    ],
)
def test_error(text: str, column: int, reason: str) -> None:
    with pytest.raises(SelectorError) as raised:
        parse(text)
    error = raised.value
    assert reason in error.reason
    assert (error.line, error.column) == (1, column)
    message, excerpt, caret = str(error).split("\n")
    assert message == f"{error.reason} (line 1, column {column})"
    assert caret.index("^") == column + 1
    assert excerpt.isprintable()


def test_error_in_a_later_line() -> None:
    with pytest.raises(SelectorError) as raised:
        parse("a = 1\n  AND b == 2\n  AND c = 3")
    assert (raised.value.line, raised.value.column) == (2, 9)
    assert str(raised.value).endswith("\n    AND b == 2\n          ^")


def test_error_in_a_long_line_is_clipped_and_travels() -> None:
    with pytest.raises(SelectorError) as raised:
        parse("x = 1 AND " * 500 + "y ! " + "AND x = 1 " * 500)
    error = pickle.loads(pickle.dumps(raised.value))
    assert str(error) == str(raised.value)
    assert len(str(error)) < 300
    assert (error.line, error.column, error.reason) == (1, 5003, raised.value.reason)


def nested(depth: int) -> str:
    return "(" * depth + "x" + ")" * depth


@pytest.mark.parametrize(
    ("fits", "exceeds"),
    [
        (" " * TEXT_MAX, " " * (TEXT_MAX + 1)),
        (nested(DEPTH_MAX), nested(DEPTH_MAX + 1)),
        ("NOT " * DEPTH_MAX + "x", "NOT " * (DEPTH_MAX + 1) + "x"),
        ("- " * DEPTH_MAX + "1 = x", "- " * (DEPTH_MAX + 1) + "1 = x"),
        ("x" + " + 1" * OPERATORS_MAX + " = 0 OR x + 1 = 1", "x" + " + 1" * (OPERATORS_MAX + 1) + " = 0"),
        ("x" + " OR x" * (TERMS_MAX - 1), "x" + " OR x" * TERMS_MAX),
        (f"x IN (1{', 1' * (TERMS_MAX - 2)})", f"x IN (1{', 1' * (TERMS_MAX - 1)})"),
        ("x = " + "1" * DIGITS_MAX, "x = " + "1" * (DIGITS_MAX + 1)),
        (f"x LIKE '{'a' * PATTERN_MAX}'", f"x LIKE '{'a' * (PATTERN_MAX + 1)}'"),
        ("a" + ".a" * (PATH_MAX - 1), "a" + ".a" * PATH_MAX),
        ("a" * NAME_MAX, "a" * (NAME_MAX + 1)),
    ],
)
def test_limits(fits: str, exceeds: str) -> None:
    parse(fits)
    with pytest.raises(SelectorError):
        parse(exceeds)
