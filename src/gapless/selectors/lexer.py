"""From the text of a selector to its tokens, by the tokenizer of sqlglot, and nothing but what is allowed.

sqlglot reads many dialects leniently; here only the words and signs of this language are given a meaning,
so that ``order``, ``date`` or ``count`` are ordinary names, and then every character is accounted for: each
token must have exactly the written form that its type has in this language, and between tokens there is
nothing but white space. Whatever else sqlglot would read (comments, parameters, other kinds of strings) is
an error here.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import Tokenizer, TokenType
from sqlglot.errors import TokenError

from gapless.selectors.errors import SelectorError

TEXT_MAX = 16_384
"""Characters in a selector."""

KEYWORDS = frozenset(("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE"))
"""The reserved words, in any case; every other word is the name of an attribute."""

_SIGNS = frozenset("()+,-.*/<=>")
_DOUBLE_SIGNS = frozenset(("<=", "<>", ">="))
_WORDS = KEYWORDS | _SIGNS | _DOUBLE_SIGNS

NAME, QUOTED_NAME, STRING, NUMBER, END = "name", "quoted name", "string", "number", "end"
_KINDS = {
    TokenType.VAR: NAME,
    TokenType.IDENTIFIER: QUOTED_NAME,
    TokenType.STRING: STRING,
    TokenType.NUMBER: NUMBER,
}

_WHITE_SPACE = " \t\r\n\f"
_NUMBER = re.compile(r"[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_QUOTED = re.compile(r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+"|['"]""")

_HINTS = {
    "!": "unequal is written <>, negation NOT",
    "#": "there are no comments",
    "%": "there is no remainder; % is a wildcard only inside a LIKE pattern",
    "&": "write AND",
    ":": "there are no parameters and no casts",
    ";": "a selector is one condition",
    "?": "there are no parameters",
    "@": "there are no parameters",
    "[": "nested attributes are reached by a path: a.b",
    "`": "an odd attribute name is written in double quotes",
    "{": "there are no parameters and no comments",
    "|": "write OR; strings cannot be joined",
}


class _SelectorTokenizer(Tokenizer):
    """sqlglot's tokenizer, with the words and signs of this language and no others.

    Every other ASCII sign is a token of its own, ``UNKNOWN``, so that none can become part of a name.
    """

    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: Tokenizer.KEYWORDS[word] for word in sorted(KEYWORDS | _DOUBLE_SIGNS)
    }
    SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
        sign: Tokenizer.SINGLE_TOKENS[sign] if sign in _SIGNS else TokenType.UNKNOWN
        for sign in string.punctuation
        if sign not in "_$"
    }
    COMMENTS: ClassVar[list[str | tuple[str, str]]] = []
    COMMANDS: ClassVar[set[TokenType]] = set()


@dataclass(frozen=True, slots=True)
class Token:
    """A name, string or number with its value as ``text``, or a word or sign with itself as its ``kind``."""

    kind: str
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a selector and then one of kind ``END``; or an error where there is a flaw."""
    if len(text) > TEXT_MAX:
        raise SelectorError(f"the selector has {len(text):,} characters; {TEXT_MAX:,} are allowed", text, 0)
    _check_characters(text)
    try:
        read = _SelectorTokenizer().tokenize(text)
    except TokenError:
        raise _unreadable(text) from None
    end = 0
    for token in read:
        _check_gap(text, end, token.start)
        end = token.end + 1
        kind = _kind(text, token.token_type, token.start, end)
        yield Token(kind, token.text, token.start, end)
    _check_gap(text, end, len(text))
    yield Token(END, "", len(text), len(text))


def is_name(word: str) -> bool:
    """Whether a word can stand for an attribute without quotes."""
    return word.replace("$", "_").isidentifier() and word.upper() not in KEYWORDS


def _check_characters(text: str) -> None:
    """What cannot be sent over the wire or stored cannot be asked for."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SelectorError("half a surrogate pair is no character", text, error.start) from None
    if "\0" in text:
        raise SelectorError("the null character is not allowed", text, text.index("\0"))


def _unreadable(text: str) -> SelectorError:
    """Why sqlglot cannot tokenize: a quote that is not closed (else: a comment of template languages)."""
    for quoted in _QUOTED.finditer(text):
        if len(quoted.group()) == 1:
            what = "string" if quoted.group() == "'" else "quoted name"
            return SelectorError(f"the {what} that begins here is not closed", text, quoted.start())
    return _unexpected(text, text.index("{"))


def _check_gap(text: str, start: int, end: int) -> None:
    """Nothing but white space between two tokens."""
    skipped = text[start:end].lstrip(_WHITE_SPACE)
    if skipped:
        raise _unexpected(text, end - len(skipped))


def _kind(text: str, read_as: TokenType, start: int, end: int) -> str:
    """The kind of a token, which must be written as this kind is written in this language."""
    written = text[start:end]
    kind = _KINDS.get(read_as)
    if kind == NAME:
        for offset, character in enumerate(written):
            if character != "$" and not f"_{character}"[offset == 0 :].isidentifier():
                raise _unexpected(text, start + offset)
    elif kind == NUMBER:
        after = text[end : end + 1]
        if not _NUMBER.fullmatch(written) or after.isalnum() or after in ("_", "$"):
            raise SelectorError("this is not a number", text, start)
    elif read_as is TokenType.NATIONAL_STRING:
        raise SelectorError("a string has no letter before its quote", text, start)
    elif kind is None and not (written.isascii() and written.upper() in _WORDS):
        raise _unexpected(text, start)
    return kind or written.upper()


def _unexpected(text: str, offset: int) -> SelectorError:
    character = text[offset]
    hint = f": {_HINTS[character]}" if character in _HINTS else ""
    return SelectorError(f"{character!r} is not part of the language{hint}", text, offset)
