"""Selectors: which events does a subscription want.

A selector is a condition over the attributes of an event, in the SQL-92 condition language that JMS uses
for message selectors::

    symbol = 'IBM' AND price BETWEEN 100 AND 150 AND desk.region LIKE 'EU-%'

**The language.** Comparisons ``= <> < <= > >=``; arithmetic ``+ - * /`` and signs; ``[NOT] BETWEEN … AND
…``, ``[NOT] IN (constants)``, ``[NOT] LIKE 'pattern' [ESCAPE 'c']``, ``IS [NOT] NULL``; ``AND OR NOT`` and
parentheses. Constants: strings in single quotes (a quote is doubled, a backslash is an ordinary character),
integers, floats (``7.``, ``.5``, ``1.5E-3``), ``TRUE`` and ``FALSE``. Keywords in any case; attribute names
are case-sensitive, any other word of SQL is a fine name (``order``, ``date``, ``count``), and odd names are
written in double quotes. ``desk.region`` is the attribute ``region`` in the attribute ``desk``; a name with
a dot in it is ``"desk.region"``. A boolean attribute is a condition by itself. Blank text matches every
event. There are no functions, casts, subqueries, parameters and comments, and unequal is not written
``!=``: all these are errors, as is nonsense that shows in the text, such as ``'a' + 1 > 2``.

**Its meaning.** A condition is true, false or unknown, and an event matches when it is true. A missing or
null attribute is unknown, and so is every comparison with it, except ``IS NULL``. Comparing unlike types is
unknown: strings, numbers and booleans are three types, NaN and everything else (bytes, lists, mappings)
compares with nothing. So ``x <> 5`` does not match where ``x`` is a string. Strings are ordered by code
point, booleans not at all. Integers and floats compare by exact value. Integers calculate exactly, also
divided (``7 / 2`` is 3.5); with a float they make a float. Division by zero, overflow, and integers beyond
4,096 bits in a calculation give unknown. ``AND``, ``OR`` and ``NOT`` follow Kleene, as in SQL: unknown
``OR`` true is true, ``NOT`` unknown is unknown. ``x IN (1, 'a')`` is ``x = 1 OR x = 'a'``, so that ``x NOT
IN (1, 'a')`` is never true.

**Its limits** keep every selector cheap to hold, to match and to compare: the constants ``…_MAX`` below.
``LIKE`` takes time linear in the text. Matching never fails, whatever the attributes are.

**How it is made.** ``lexer`` (on sqlglot's tokenizer) and ``parser`` make the ``tree``; ``evaluation``
compiles it to a Python function; ``normal`` turns it into a disjunction of conjunctions of simple tests,
which the matching index is built on, and with which ``covering`` decides whether one selector matches
everything that another matches; ``writer`` makes the canonical text.
"""

from gapless.selectors.arithmetic import OPERAND_BITS_MAX
from gapless.selectors.errors import SelectorError
from gapless.selectors.lexer import TEXT_MAX
from gapless.selectors.parser import (
    DEPTH_MAX,
    DIGITS_MAX,
    NAME_MAX,
    OPERATORS_MAX,
    PATH_MAX,
    PATTERN_MAX,
    TERMS_MAX,
)
from gapless.selectors.selector import Selector

__all__ = [
    "DEPTH_MAX",
    "DIGITS_MAX",
    "NAME_MAX",
    "OPERAND_BITS_MAX",
    "OPERATORS_MAX",
    "PATH_MAX",
    "PATTERN_MAX",
    "TERMS_MAX",
    "TEXT_MAX",
    "Selector",
    "SelectorError",
]
