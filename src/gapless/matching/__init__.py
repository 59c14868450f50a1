"""Matching: which subscriptions does this event match.

``MatchIndex`` answers what ``[key for key, selector in subscriptions if selector.matches(event)]`` would, in
a time that depends on the number of matches more than on the number of subscriptions.

**The idea.** A selector is a disjunction of conjunctions of simple predicates (``gapless.selectors.normal``).
A conjunction, here *clause*, can only hold where its most selective predicate holds; so it is kept under that
predicate, where only the events that satisfy it come by, and the rest of it is checked there. Where many
clauses meet in one place they are divided again, under their next predicate. This is the *access predicate*
of Fabret et al. (SIGMOD 2001) and Hanson's predicate index (SIGMOD 1990), applied at each level as in a
matching tree (Aguilera et al., PODC 1999). The other well-known method, to count for each clause how many of
its predicates an event satisfies (Yan and Garcia-Molina, 1994), has to touch every clause with one satisfied
predicate: with ranges and small sets that is a large part of all.

**What is looked up how.** Equality and sets, and so booleans, in a hash table by value; prefixes in a hash
table by text, one for each length; ``IS NULL`` in a table of absent attributes; ranges in a tree of slabs
(``ranges``). ``<>``, ``NOT IN``, ``IS NOT NULL`` and any other condition are only checked on candidates; a
selector with nothing else is a candidate for every event. A selector that is never true is nowhere.

**What is kept.** Not the selector: only its predicates, in the order in which they are used, which is chosen
once (``selectivity``). Equal clauses of different subscriptions are one clause, however the selectors were
written, and are checked once. Removing a subscription takes the same way as adding it; ranges rebuild parts
of themselves now and then, everything else is exact at once, and nothing remains of what was removed.

``compiling`` makes clauses of selectors, ``reading`` takes out of an event what they ask for, ``predicates``
are what is asked, ``node`` is the tree with its tables, ``ranges`` and ``ladder`` hold ranges, ``index`` puts
it together. Matches come in the order in which the subscriptions were added: no set and no hash has a say.
"""

from gapless.matching.index import MatchIndex

__all__ = ["MatchIndex"]
