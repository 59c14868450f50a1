"""The command: brokers, clients, acts, a report, and the verdict as exit code."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from live.harness import LiveNetwork
from live.traffic import Traffic
from tools.soak_live.crowd import LEASE_SECONDS
from tools.soak_live.rounds import DELTA, Soak

BROKERS = 7


async def soak(directory: Path, seconds: float, seed: int, rate: float) -> bool:
    """One run in the directory; returns the verdict. The brokers end with it, however it ends."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    settings = directory / "broker.toml"
    settings.write_text(f"lease = {LEASE_SECONDS}\n")
    with LiveNetwork(directory, delta=DELTA, options=("--config", str(settings))) as network:
        network.tree(BROKERS)
        async with Traffic(network, directory, "soak", per_second=rate) as traffic:
            run = Soak(network, traffic, directory, seed)
            good = True
            try:
                await traffic.flows()
                await run.run(seconds)
            except* Exception as errors:
                good = False
                for error in errors.exceptions:
                    print(f"failed: {type(error).__name__}: {error}")
            return run.conclude() and good


def main() -> int:
    parser = argparse.ArgumentParser(description="Random faults on real brokers under traffic, judged.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=300.0, help="events a second, of all residents")
    parser.add_argument("--keep", type=Path, help="where stores and logs stay; else only if a promise broke")
    options = parser.parse_args()
    print(
        f"{options.minutes:g} minutes, seed {options.seed}, {options.rate:g} events/s, δ = {DELTA}",
        flush=True,
    )
    directory: Path = options.keep or Path(tempfile.mkdtemp(prefix="soak-live-"))
    directory.mkdir(parents=True, exist_ok=True)
    good = True
    try:
        good = asyncio.run(soak(directory, 60 * options.minutes, options.seed, options.rate))
    except (KeyboardInterrupt, asyncio.CancelledError):
        sys.exit("told to stop")
    finally:
        if good and not options.keep:
            shutil.rmtree(directory)
    again = f"again with --seed {options.seed}; stores, logs and traces are in {directory}"
    print("verdict: every promise kept" if good else f"verdict: FAILED; {again}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
