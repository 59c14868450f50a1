"""Schemas of topics and what attributes may be: what is allowed, and what the errors say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core import attributes as limits
from gapless.core.model import Event
from gapless.core.schema import TEXT_MAX as SCHEMA_MAX
from gapless.core.schema import Schema, SchemaError, check_attributes

TRADES = (
    "symbol STRING NOT NULL, price DOUBLE, qty BIGINT, hot BOOLEAN,"
    " desk STRUCT<region: STRING NOT NULL, `seat no` STRUCT<n: TINYINT>>"
)
TRADE = {"symbol": "IBM", "price": 131.2, "qty": 3, "hot": True}


class Text(str):
    __slots__ = ()


# -- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a int", "a INT"),
        ("  a\tSTRING ,\n b Double", "a STRING, b DOUBLE"),
        ("a BYTE, b SHORT, c INTEGER, d LONG, e REAL", "a TINYINT, b SMALLINT, c INT, d BIGINT, e FLOAT"),
        ("a STRUCT<b: INT, c STRUCT<d:string>> NOT NULL", "a STRUCT<b INT, c STRUCT<d STRING>> NOT NULL"),
        ("`odd ``name` STRING COMMENT 'what, it\\'s', `x` INT", "`odd ``name` STRING, x INT"),
        ("order INT, date STRING, select BOOLEAN", "order INT, date STRING, select BOOLEAN"),
        ("größe INT", "`größe` INT"),
    ],
)
def test_what_means_the_same_is_written_in_one_way(text: str, canonical: str) -> None:
    schema = Schema.parse(text)
    assert str(schema) == canonical
    assert Schema.parse(canonical).columns == schema.columns


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        ("", "expected the name of a column, found the end", 1),
        ("a", "expected a type", 2),
        ("a INT,", "expected the name of a column", 7),
        ("a INT b INT", "expected a comma or the end, found 'b'", 7),
        ("a INTT", "found 'INTT'", 3),
        ("a INT, A STRING", "two columns 'A'", 8),
        ("a DECIMAL(10, 2)", "DECIMAL cannot be the type of a column: attributes hold no decimals", 3),
        ("a TIMESTAMP", "selectors compare no dates", 3),
        ("a date", "selectors compare no dates", 3),
        ("a ARRAY<INT>", "payload", 3),
        ("a MAP<STRING, INT>", "payload", 3),
        ("a BINARY", "payload", 3),
        ("a VARCHAR(3)", "use STRING", 3),
        ("a STRUCT<b INT", "expected a comma or >", 15),
        ("a STRUCT<>", "expected <", 9),
        ("a STRUCT<b TIMESTAMP>", "selectors compare no dates", 12),
        ("a INT NOT", "expected NULL", 10),
        ("a INT COMMENT 3", "comment is a text", 15),
        ("a INT -- no", "'-- no' is not part of a schema", 7),
        ("a INT /* no */ NOT NULL", "is not part of a schema", 7),
        ("a INT; DROP", "expected a comma or the end, found ';'", 6),
        ("'a' INT", "expected the name of a column", 1),
        ("a `INT`", "expected a type", 3),
        ("a 'x", "quote is not closed", 1),
        ("a INT, `\ud800` INT", "half a surrogate pair", 9),
        ("a STRUCT<" * 8, "nested at most 7 deep", 73),
        (", ".join(f"c{k} INT" for k in range(257)), "at most 256 columns", 2451),
        ("a" * 256 + " INT", "expected the name of a column", 1),
        ("a " * SCHEMA_MAX, "at most 8,192 characters", 1),
    ],
    ids=range(29),
)
def test_what_is_no_schema_is_refused_with_its_place(text: str, reason: str, column: int) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.parse(text)
    assert reason in str(caught.value)
    assert (caught.value.line, caught.value.column) == (1, column)


def test_the_place_counts_lines() -> None:
    with pytest.raises(SchemaError, match=r"line 2, column 5"):
        Schema.parse("a INT,\n  b OOPS")


@given(st.text(max_size=60) | st.text("aINT <>,:`'\"-/*()STRUC.\n;{}#%", max_size=60))
def test_no_text_makes_reading_fail_otherwise(text: str) -> None:
    try:
        schema = Schema.parse(text)
    except SchemaError as error:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert Schema.parse(str(schema)).columns == schema.columns


# -- checking ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        TRADE,
        {"symbol": ""},
        {**TRADE, "price": 131, "hot": None, "desk": None},
        {**TRADE, "qty": -(1 << 63), "price": float("nan")},
        {**TRADE, "desk": {"region": "EU", "seat no": {"n": -128}}},
        {**TRADE, "desk": {"region": "EU", "seat no": {}}},
    ],
)
def test_what_fits_is_fine(event: dict[str, Any]) -> None:
    assert Schema.parse(TRADES).check(event) is None


@pytest.mark.parametrize(
    ("event", "flaw"),
    [
        ({}, "attribute 'symbol' must not be null or missing (STRING NOT NULL)"),
        ({"symbol": None}, "attribute 'symbol' must not be null or missing (STRING NOT NULL)"),
        ({**TRADE, "price": "131"}, "attribute 'price' must be DOUBLE, not '131' of type str"),
        ({**TRADE, "price": True}, "attribute 'price' must be DOUBLE, not True of type bool"),
        ({**TRADE, "qty": 1.0}, "attribute 'qty' must be BIGINT, not 1.0 of type float"),
        ({**TRADE, "qty": 1 << 63}, "attribute 'qty' must be BIGINT, not 9223372036854775808 of type int"),
        ({**TRADE, "hot": 1}, "attribute 'hot' must be BOOLEAN, not 1 of type int"),
        ({**TRADE, "symbol": b"IBM"}, "attribute 'symbol' must be STRING, not of type bytes"),
        ({**TRADE, "Price": 1.0}, "there is no attribute 'Price' in the schema"),
        ({**TRADE, "desk": {}}, "attribute 'desk.region' must not be null or missing (STRING NOT NULL)"),
        ({**TRADE, "desk": "EU"}, "attribute 'desk' must be STRUCT<"),
        (
            {**TRADE, "desk": {"region": "EU", "seat no": {"n": 128}}},
            "attribute 'desk.seat no.n' must be TINYINT, not 128 of type int",
        ),
        ({**TRADE, "symbol": "\ud800"}, "attribute 'symbol' has half a surrogate pair"),
        ({**TRADE, "symbol": "x" * limits.SIZE_MAX}, "at most 65,536 bytes"),
        ({**TRADE, "desk": {"region": "x" * limits.SIZE_MAX}}, "at most 65,536 bytes"),
        ({**TRADE, "desk": {"region": "\ud800"}}, "'desk.region' has half a surrogate pair"),
    ],
)
def test_what_does_not_fit_is_named(event: dict[str, Any], flaw: str) -> None:
    found = Schema.parse(TRADES).check(event)
    assert found is not None
    assert flaw in found


@pytest.mark.parametrize(("kind", "bits"), [("TINYINT", 8), ("SMALLINT", 16), ("INT", 32), ("BIGINT", 64)])
def test_integers_have_their_range(kind: str, bits: int) -> None:
    schema = Schema.parse(f"n {kind}")
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    assert [schema.check({"n": n}) is None for n in (low - 1, low, 0, high, high + 1)] == [
        False,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_an_integer_has_64_bits_whatever_the_column(kind: str) -> None:
    schema = Schema.parse(f"a {kind}")
    for fits in (-(2**63), 2**63 - 1):
        assert schema.check({"a": fits}) is None
        event = Event("t", "p", 1, {"a": fits})
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) == event
    for unfit in (-(2**63) - 1, 2**63, 2**64, 10**30):
        assert "must be" in (schema.check({"a": unfit}) or "")


def test_a_float_of_32_bits_must_not_become_infinite() -> None:
    schema = Schema.parse("x FLOAT")
    fine = [schema.check({"x": x}) is None for x in (3.4e38, -3.4e38, float("inf"), float("nan"), 7, 3.5e38)]
    assert fine == [True, True, True, True, True, False]


# -- attributes without a schema ---------------------------------------------------------------------------


def nested(levels: int) -> dict[str, Any]:
    event: dict[str, Any] = {"x": 1}
    for _ in range(levels - 1):
        event = {"x": event}
    return event


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"a": 1, "b": 1.5, "c": "x", "d": None, "e": True, "f": {"g": {}}},
        {"größe": "groß", "空": {"é": "é"}},
        {"n": (1 << 63) - 1, "m": -(1 << 63)},
        nested(limits.NESTING_MAX),
        {f"a{k}": k for k in range(limits.COUNT_MAX)},
        {"x": "y" * (limits.SIZE_MAX - 1)},
        {"a" * limits.NAME_MAX: 1},
    ],
    ids=range(8),
)
def test_attributes_that_selectors_understand_are_fine(event: dict[str, Any]) -> None:
    assert check_attributes(event) is None


@pytest.mark.parametrize(
    ("event", "flaw"),
    [
        ([], "attributes are a dict, not of type list"),
        ({"": 1}, "'' is no name of an attribute"),
        ({3: 1}, "3 is no name of an attribute"),
        ({"a" * 256: 1}, "is no name of an attribute"),
        ({"\udfff": 1}, "is no name of an attribute"),
        ({"a": 1 << 63}, "'a' is an integer of more than 64 bits"),
        ({"a": 1 << 99_999}, "'a' is an integer of more than 64 bits: 100000 bits"),
        ({"a": b"x"}, "'a' is of type bytes"),
        ({"a": {"b": [1]}}, "'a.b' is of type list"),
        ({"a": {"b": Text("x")}}, "'a.b' is of type Text"),
        ({"a": "\ud800"}, "'a' has half a surrogate pair"),
        (nested(limits.NESTING_MAX + 1), "nested more than 8 levels"),
        ({f"a{k}": k for k in range(257)}, "at most 256 attributes, not 257"),
        ({"a": {f"a{k}": k for k in range(257)}}, "at most 256 attributes, not 257"),
        ({"x": "y" * limits.SIZE_MAX}, "at most 65,536 bytes, not 65,537"),
        ({"x": "é" * (limits.SIZE_MAX // 2)}, "at most 65,536 bytes, not 65,537"),
    ],
    ids=range(16),
)
def test_attributes_that_cannot_be_sent_are_named(event: Any, flaw: str) -> None:
    found = check_attributes(event)
    assert found is not None
    assert flaw in found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=3),
    lambda inner: st.dictionaries(st.text(max_size=3), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_what_is_fine_is_fine_all_the_way_down(event: dict[str, Any]) -> None:
    """The fast way and the plain definition agree."""

    def fine(value: object) -> bool:
        if type(value) is dict:
            return all(name and _encodable(name) and fine(each) for name, each in value.items())
        if type(value) is int:
            return -(1 << 63) <= value < 1 << 63
        return value is None or type(value) in (bool, float) or (type(value) is str and _encodable(value))

    assert (check_attributes(event) is None) == fine(event)


def _encodable(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def test_the_largest_event_that_is_not_measured_fits() -> None:
    """Short texts in as many columns as there can be, with the longest names."""
    names = [chr(0x10000 + k) * 20 for k in range(limits.COUNT_MAX)]
    schema = Schema.parse(", ".join(f"`{name}` STRING" for name in names))
    event = dict.fromkeys(names, "x" * 128)
    assert schema.check(event) is None
    assert check_attributes(event) is None
