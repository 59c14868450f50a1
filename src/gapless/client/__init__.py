"""The Python API: connect, publish, subscribe, and a whole network inside a process.

A client is a leaf of the overlay (:mod:`gapless.core.leaf`) with a driver of its own: it runs the same
sessions, duplicate detection and resending as a broker, so there is no second reliability protocol here. What
this package adds is waiting: for room in the window, for a confirmation, for a promise to hold, for an
event."""
