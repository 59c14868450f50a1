"""A place in the tokens of a selector, from which a parser reads on and reports errors."""

from __future__ import annotations

from typing import NoReturn

from gapless.selectors.errors import SelectorError
from gapless.selectors.lexer import END, Token, tokens

_SHOWN_MAX = 40


class Cursor:
    """The tokens of one text and the next one to read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self._index = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._index]

    @property
    def last(self) -> Token:
        """The token before the next one."""
        return self._tokens[self._index - 1]

    def take(self) -> Token:
        """The next token, which is passed."""
        token = self.token
        self._index += 1
        return token

    def accept(self, kind: str) -> bool:
        """Passes the next token if it is of this kind."""
        found = self.token.kind == kind
        self._index += found
        return found

    def expect(self, kind: str, description: str) -> Token:
        """The next token, which must be of this kind and is passed."""
        if self.token.kind != kind:
            self.fail(f"expected {description}, found {self.found()}")
        return self.take()

    def touches(self, *kinds: str) -> bool:
        """Whether the next two tokens are of these kinds with nothing between them."""
        following = self._tokens[self._index : self._index + 2]
        return tuple(token.kind for token in following) == kinds and following[0].end == following[1].start

    def found(self) -> str:
        """The next token, for a message."""
        if self.token.kind == END:
            return "the end"
        written = self.text[self.token.start : self.token.end]
        return written if len(written) <= _SHOWN_MAX else f"{written[:_SHOWN_MAX]}…"

    def fail(self, reason: str, token: Token | None = None) -> NoReturn:
        """Rejects the text because of a token, the next one if none is given."""
        raise SelectorError(reason, self.text, (token or self.token).start)
