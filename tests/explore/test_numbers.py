"""explorer.js writes numbers as Python does, checked on thousands of values, ties included."""

import json
import random
import subprocess
from pathlib import Path

import pytest

from lib.explore.picture import written

MODULE = Path(__file__).parents[2] / "lib" / "explore" / "explorer.js"
WRITE = """
import { formatNumber } from "MODULE";
import { readFileSync } from "node:fs";
const { values, spec } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(values.map((value) => formatNumber(value, spec))));
"""


@pytest.mark.parametrize("spec", ["d", ".0f", ".1f", ".2f", ".3f", ",.1f", ",d", ".1%", ".0%", ".2g", ".3g", ".4g"])
def test_javascript_writes_numbers_as_python_does(spec: str):
    random.seed(0)
    ties = [sign * k / 16 for k in range(200) for sign in (1, -1)]
    values = [*ties, *(random.uniform(-1, 1) * 10 ** random.randint(-3, 7) for _ in range(2000))]
    run = subprocess.run(
        ["node", "--input-type=module", "--eval", WRITE.replace("MODULE", MODULE.as_uri())],
        input=json.dumps({"values": values, "spec": spec}),
        capture_output=True,
        text=True,
        check=True,
    )
    expected = [written(value, spec) for value in values]
    assert dict(zip(values, json.loads(run.stdout), strict=True)) == dict(zip(values, expected, strict=True))
