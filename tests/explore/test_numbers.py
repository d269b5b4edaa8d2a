"""explorer.js reads and writes numbers as Python does: over formats, sizes, ties, and through every encoding."""

import json
import random
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lib.explore import Explorer, bars, lines, readout
from lib.explore.text import written

MODULE = Path(__file__).parents[2] / "lib" / "explore" / "explorer.js"
WRITE = """
import { decode, formatNumber } from "MODULE";
import { readFileSync } from "node:fs";
const view = (text) => new DataView(Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer);
const write = ({ values, array, buffers, spec }) =>
  (array ? [...decode(array, buffers.map(view)).values] : values).map((value) => formatNumber(value, spec));
console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(write)));
"""
SPECS = ["", ",", "d", ",d", ".0f", ".1f", ".2f", ".3f", ",.1f", ".1%", ".0%"]
SPECS += [".0g", ".1g", ".2g", ".3g", ".4g", ".6g", ".9g", ".17g"]


def in_javascript(jobs: list[dict[str, Any]]) -> list[list[str]]:
    """The texts that explorer.js writes for each job: numbers, or a packed array and its buffers, and a format."""
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", WRITE.replace("MODULE", MODULE.as_uri())],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def shown(explorer: Explorer, name: str, spec: str) -> dict[str, Any]:
    buffers = [b64encode(buffer).decode() for buffer in explorer.buffers]
    return {"array": explorer.panels[0]["arrays"][name], "buffers": buffers, "spec": spec}


@pytest.mark.parametrize("spec", SPECS)
def test_javascript_writes_numbers_as_python_does(spec: str):
    random.seed(0)
    ties = [sign * k / 16 for k in range(200) for sign in (1, -1)]
    ties += [sign * k * 125.0 for k in range(200) for sign in (1, -1)] + [1234565.0, 2.0**-14, 3 * 2.0**-14]
    sizes = [random.uniform(-1, 1) * 10 ** random.randint(-12, 12) for _ in range(1000)]
    huge = [1e21, -1e22, 2.0**53, 1e15 + 0.5, 5e-324, 1.7e300]
    values = [*ties, *sizes, *huge, *(random.uniform(-1, 1) * 10 ** random.randint(-3, 7) for _ in range(2000))]
    expected = [written(value, spec) for value in values]
    came = in_javascript([{"values": values, "spec": spec}])[0]
    assert dict(zip(values, came, strict=True)) == dict(zip(values, expected, strict=True))


NUMBERS = {
    "tiny": [2e-10, 5e-10],
    "tiny beside one": [1.0, 2e-10],
    "below float32": [1e-46, 3e-300],
    "beyond float32": [1e39, -1e300],
    "integers beyond float32": [16777217, 16777219],
    "largest integers": [2**53, 1 - 2**53],
    "almost a level": [51 / 255 * (1 + 1e-6), 0.0],
    "half way between two decimals": [0.0025, 0.0035],
    "far from zero": [1e6, 1e6 + 0.25],
    "levels": [0.2, 1.0],
    "negative": [-0.5, -3e-7],
}


def test_a_readout_shows_the_numbers_to_the_digits_asked_for():
    cases = {(name, spec): values for name, values in NUMBERS.items() for spec in SPECS}
    explorers = [Explorer({"n": [1, 2]}, [readout(f"{{v:{spec}}}", v=v)]) for (_, spec), v in cases.items()]
    jobs = [shown(explorer, "v", spec) for explorer, (_, spec) in zip(explorers, cases, strict=True)]
    expected = {case: [written(value, case[1]) for value in values] for case, values in cases.items()}
    assert dict(zip(cases, in_javascript(jobs), strict=True)) == expected


@pytest.mark.parametrize("make", [bars, lambda values, **kwargs: lines([values], x=[0, 1], **kwargs)])
@pytest.mark.parametrize("values", [[2e-10, 5e-10], [16777216, 16777217], [0.0025, 1.0], [1e6, 1e6 + 1e-3]], ids=str)
def test_bars_and_curves_show_their_numbers_too(make: Any, values: list[float]):
    names = {"names": "ab"} if make is bars else {}
    explorer = Explorer({"n": [1]}, [make(values, format=".10g", sliders=[], **names)])
    assert in_javascript([shown(explorer, "values", ".10g")]) == [[written(value, ".10g") for value in values]]


def test_integers_that_no_browser_can_hold_are_refused():
    with pytest.raises(ValueError, match=r"readout: n must hold integers of at most 2\^53"):
        readout("{n:d}", n=np.array([2**53 + 1]))
