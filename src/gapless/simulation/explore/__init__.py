"""Exploration: all schedules of a small network with up to k deviations, and a story of what goes wrong.

Random runs seldom starve one channel, or let a broker crash with just the message that the others lack. Here
nothing is random: ``explore`` tries every choice of up to k deviations from a default schedule (see
``deviation.py``) and visits each state of the network once.
"""

from gapless.simulation.explore.deviation import Deviation
from gapless.simulation.explore.scenario import Scenario
from gapless.simulation.explore.scenarios import SCENARIOS
from gapless.simulation.explore.search import Exploration, Schedule, explore, replay
from gapless.simulation.explore.story import command, story

__all__ = [
    "SCENARIOS",
    "Deviation",
    "Exploration",
    "Scenario",
    "Schedule",
    "command",
    "explore",
    "replay",
    "story",
]
