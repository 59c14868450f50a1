from gapless.matching.index import MatchIndex

__all__ = ["MatchIndex"]
