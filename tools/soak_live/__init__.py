"""A long run of real broker processes under random faults: ``python -m tools.soak_live --minutes 60``.

Seven brokers with δ = 2 carry two kinds of traffic. The *residents* (``live.traffic``) publish and read for
the whole time; no promise to them is ever withdrawn, and every event is judged when it arrives. The *crowd*
(``crowd``) comes and goes: subscribers that unsubscribe, vanish or are cut off for a while, publishers that
end or crash and go on with their store, or lose it. All that they ask for and see is recorded
(``recording``), and the checkers of the simulator judge it.

Meanwhile brokers are killed, stopped, frozen, removed, replaced, and new ones join (``brokers``): there are
three to nine, and never more than δ of them are failed, recovering, joining or being removed.

A run has rounds of a minute (``rounds``). At the end of each everything is mended, everything is confirmed,
nothing is left in custody, and the crowd's round is judged. At the end of the run no log has a traceback and
memory has not grown. The exit code is the verdict.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
