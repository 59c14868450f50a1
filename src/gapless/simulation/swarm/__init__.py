"""Swarm testing: every seed draws which features its run has, and how small, slow and close things are.

One kind of run cannot show everything: faults of one kind hide what others would show, and large limits hide
what happens beyond them. So ``features`` draws for each seed what there is at all; ``script`` spreads acts
over episodes in which much happens close together; acts are small functions in modules of their own
(``crashes``, ``links``, ``membership``, ``aiming``, ``clients``), and ``budget`` is the one place that counts
how much is broken.
"""
