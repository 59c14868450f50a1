"""The papers' figures again, from this system's own overlay, sessions and forwarding (``gapless figures``).

=============================  ===========================================================================
module                         what it is
=============================  ===========================================================================
``networks``                   the trees and the failures of a run, from one seed
``reach``                      who can reach whom, by the definition alone
``overlays``                   who reaches whom, by the code that brokers run
``connectivity`` … ``sessions``  a figure each: what a task does, how tasks are summed up, what was found
``figure``                     what a figure is, and its Spark job
``drawing``, ``report``        plots; tables, Markdown and HTML
=============================  ===========================================================================
"""
