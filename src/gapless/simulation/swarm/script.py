"""When what happens: episodes in which acts follow each other closely, and some rest between them."""

from __future__ import annotations

from gapless.core.model import SECOND, Micros
from gapless.simulation.swarm import crashes, links, membership, names
from gapless.simulation.swarm.aiming import Aims
from gapless.simulation.swarm.clients import Crowd
from gapless.simulation.swarm.features import CALM, RETURNING, WEARING
from gapless.simulation.swarm.leases import Leases
from gapless.simulation.swarm.squeezes import KINDS, REST
from gapless.simulation.swarm.stage import Act, Stage
from gapless.simulation.swarm.watching import Watch

WARM_UP: Micros = 1 * SECOND
TRIES = 4
"""How often an act is tried that cannot be done now."""


class Script:
    """Draws the acts of a run and has them happen."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.watch = Watch(stage)
        self.crowd = crowd = Crowd(stage, self.watch)
        self.aims = Aims(stage, (crowd.publish, crowd.burst, crowd.subscribe, crowd.connect))
        self.acts: dict[str, Act] = {
            "crash": crashes.crash,
            "crash silently": crashes.crash_silently,
            "crash and lose what is under way": crashes.crash_lossily,
            "crash in a batch": crashes.crash_in_a_batch,
            "crash in a write": crashes.crash_in_a_write,
            "black out": crashes.black_out,
            "crash a client": crashes.crash_a_client,
            "cut": links.cut,
            "cut one way": links.cut_one_way,
            "cut noticed": links.cut_noticed,
            "suspect": links.suspect,
            "slow down": links.slow_down,
            "slow line": links.slow_line,
            "starve": links.starve,
            "cut off a client": links.cut_off_a_client,
            "move a client": links.move_a_client,
            "adopt": crowd.adopt,
            "lose a store": names.lose_a_store,
            "share a name": crowd.share_a_name,
            "double a client": crowd.double,
            "double a broker": names.double_a_broker,
            "foreign broker": names.a_foreign_broker,
            "join": membership.join,
            "leave": membership.leave,
            "replace": membership.replace,
            "remove": membership.remove,
            "aim at a message": self.aims.at_a_message,
            "aim at a phase": self.aims.at_a_phase,
            WEARING: crashes.wear_down,
            RETURNING: names.start_a_removed_broker,
            "publish": crowd.publish,
            "burst": crowd.burst,
            "subscribe": crowd.subscribe,
            "unsubscribe": crowd.unsubscribe,
            "connect": crowd.connect,
            "heal": links.heal_early,
        }
        self.closes = self._write()
        self.watch.look_every(stage.features.breath // 4)
        self.leases = Leases(stage)
        self.leases.look_every(stage.features.breath // 8)

    def _write(self) -> Micros:
        """Spread the acts over the time; the answer is when the last one is done."""
        stage, features = self.stage, self.stage.features
        rng, at = stage.rng, stage.world.at
        moment = WARM_UP
        for _ in range(features.episodes):
            moment += stage.gap(4 * features.breath)
            longest = features.breath // rng.choice((1, 1, 4, 20))
            for name in self._episode():
                if name == REST:
                    moment += int(features.breath * (0.5 + rng.random()))
                    continue
                moment += stage.gap(longest)
                at(moment, self._attempt, (name, TRIES))
        for _ in range(features.background):
            at(rng.randrange(WARM_UP, moment), self._attempt, ("publish", 1))
        return moment + stage.gap(4 * features.breath)

    def _episode(self) -> list[str]:
        """The acts of an episode: any, or those of a squeeze."""
        rng, features = self.stage.rng, self.stage.features
        if rng.random() < features.squeezes:
            return [self._of_the_kind(slot) for slot in rng.choice(features.repertoire)]
        return [self._draw() for _ in range(features.acts)]

    def _of_the_kind(self, slot: str) -> str:
        """An act for a slot of a squeeze: of those that the seed has, if it has one of the kind."""
        if slot not in KINDS:
            return slot
        kind = KINDS[slot]
        present = [name for name in kind if name in self.stage.features.faults]
        return self.stage.rng.choice(present or kind)

    def _draw(self) -> str:
        stage = self.stage
        if stage.rng.random() < stage.features.fault_share:
            return stage.rng.choice(stage.features.faults)
        return stage.rng.choices(CALM, (6, 2, 3, 1, 1, 1))[0]

    def _attempt(self, what: tuple[str, int]) -> None:
        """Do it if it can be done now, else try again a little later."""
        name, tries = what
        stage = self.stage
        if not stage.is_open:
            return
        if self.acts[name](stage):
            stage.counts[name] += 1
        elif tries > 1:
            at = stage.world.now + stage.gap(stage.features.breath)
            stage.world.at(at, self._attempt, (name, tries - 1))
