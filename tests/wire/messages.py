"""Strategies for everything that can go over the wire, derived from the types themselves."""

from __future__ import annotations

from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gapless.wire.codec import WireMessage

CLASSES: tuple[type[msgspec.Struct], ...] = get_args(WireMessage)
"""Every message class of the protocol."""

INTEGERS = st.integers(-(2**63), 2**64 - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES: SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def of_class(kind: type[msgspec.Struct]) -> SearchStrategy[Any]:
    """Messages of a class, with any values that its types allow."""
    fields = {}
    for each in msgspec.structs.fields(kind):
        fields[each.name] = of_type(each.type)
    return st.builds(kind, **fields)


def of_type(hint: Any) -> SearchStrategy[Any]:
    """Values of a type: what ``from_type`` does, for the structs of msgspec too."""
    if hint is Any:
        return VALUES
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return of_class(hint)
    if get_origin(hint) is Annotated:  # limits of an integer, or not empty
        kind, limits = get_args(hint)
        return st.integers(limits.ge, limits.le) if kind is int else of_type(kind).filter(len)
    origin, inner = getattr(hint, "__origin__", None), get_args(hint)
    if origin is dict:
        keys, values = map(of_type, inner)
        return st.dictionaries(keys, values, max_size=3)
    if origin is tuple and inner[-1] is ...:
        return st.lists(of_type(inner[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of_type, inner))
    if inner and origin in (None, Union):  # such as X | None
        return st.one_of(*map(of_type, inner))
    if hint is float:
        return st.floats(allow_nan=False)
    if hint is int:
        return INTEGERS
    if hint is str:
        return st.text(max_size=12)
    if hint is bytes:
        return st.binary(max_size=20)
    return st.from_type(hint)


MESSAGES: SearchStrategy[Any] = st.one_of(*map(of_class, CLASSES))
