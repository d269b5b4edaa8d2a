"""Explorers: arrays with named slider axes, computed by a kernel in Python and drawn in the browser."""

from lib.explore.explorer import Explorer
from lib.explore.multiplication import product
from lib.explore.panel import Panel
from lib.explore.panels import bars, heatmap, image, lines, readout

__all__ = ["Explorer", "Panel", "bars", "heatmap", "image", "lines", "product", "readout"]
