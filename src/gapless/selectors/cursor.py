"""A place in the tokens of a selector, from which a parser reads on and reports errors."""

from __future__ import annotations

from typing import NoReturn

from gapless.selectors.errors import SelectorError
from gapless.selectors.lexer import END, Token, tokens

_SHOWN_MAX = 40


class Cursor:
    """The next token of one text, the one after it and the one before it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokens(text)
        self.token = next(self._tokens)
        self._following = next(self._tokens, self.token)
        self.last = self.token

    def take(self) -> Token:
        """The next token, which is passed."""
        self.last, self.token = self.token, self._following
        self._following = next(self._tokens, self.token)
        return self.last

    def accept(self, kind: str) -> bool:
        """Passes the next token if it is of this kind."""
        found = self.token.kind == kind
        if found:
            self.take()
        return found

    def expect(self, kind: str, description: str) -> Token:
        """The next token, which must be of this kind and is passed."""
        if self.token.kind != kind:
            self.fail(f"expected {description}, found {self.found()}")
        return self.take()

    def touches(self, kind: str, following: str) -> bool:
        """Whether the next two tokens are of these kinds with nothing between them."""
        kinds = (self.token.kind, self._following.kind)
        return kinds == (kind, following) and self.token.end == self._following.start

    def found(self) -> str:
        """The next token, for a message."""
        if self.token.kind == END:
            return "the end"
        written = self.text[self.token.start : self.token.end]
        return written if len(written) <= _SHOWN_MAX else f"{written[:_SHOWN_MAX]}…"

    def fail(self, reason: str, token: Token | None = None) -> NoReturn:
        """Rejects the text because of a token, the next one if none is given."""
        raise SelectorError(reason, self.text, (token or self.token).start)
