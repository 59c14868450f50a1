"""All figures that can be made again."""

from __future__ import annotations

from gapless.experiments.connectivity import Connectivity
from gapless.experiments.delivery import Delivery
from gapless.experiments.figure import Figure
from gapless.experiments.neighbourhoods import Neighbourhoods
from gapless.experiments.sessions import Sessions

FIGURES: dict[str, Figure] = {
    figure.name: figure for figure in (Connectivity(), Delivery(), Neighbourhoods(), Sessions())
}
