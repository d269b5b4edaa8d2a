"""Running a notebook, keeping of its outputs what is the same each time, and telling what of it is text."""

import os
import re
from configparser import RawConfigParser
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from nbformat import NotebookNode

from tools.site import ROOT

# No progress bars among the outputs, and sums that don't depend on how many cores the machine has.
KERNEL_ENVIRONMENT = {"TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
CELL_TIMEOUT = 300
VARIES = "nbval-ignore-output"  # tag of a cell that prints numbers of a training, whose digits are the machine's own
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def _rounding() -> re.Pattern[str]:
    settings = RawConfigParser()
    settings.read(ROOT / "book" / "rounding.cfg", "utf-8")
    return re.compile(settings["rounding"]["regex"])


ROUNDING = _rounding()


def execute(notebook: NotebookNode) -> None:
    """Run all cells, in an empty folder, and store their outputs in `notebook`."""
    metadata = dict(notebook.metadata)
    client = NotebookClient(
        notebook, timeout=CELL_TIMEOUT, coalesce_streams=True, record_timing=False, store_widget_state=False
    )
    with TemporaryDirectory() as folder:
        client.execute(cwd=folder, env=os.environ | KERNEL_ENVIRONMENT)
    notebook.metadata = NotebookNode(metadata)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = lasting_outputs(cell.outputs)


def texts(outputs: list[NotebookNode], *, varies: bool = False) -> dict[str, list[str]]:
    """What a cell says, by stream and type, as far as it is the same on all machines.

    Of pictures, which differ by a pixel, that is how many there are; a difference in the last digit of a float32 is
    nothing; and where the cell `varies`, its numbers don't count.
    """
    said: dict[str, list[str]] = {}
    for output in outputs:
        if output.output_type == "stream":
            said[output.name] = ["".join(said.get(output.name, [])) + output.text]
        for kind, content in output.get("data", {}).items():
            if kind != WIDGET_VIEW:
                said.setdefault(kind, []).append("" if kind.startswith("image/") else str(content))
    return {kind: [_lasting(text, varies) for text in contents] for kind, contents in said.items()}


def _lasting(text: str, varies: bool) -> str:
    return re.sub(r"[\d.]+", "#", text) if varies else ROUNDING.sub("nothing", text)


def lasting_outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs without live widgets, which mean nothing once their kernel is gone."""
    for output in outputs:
        output.get("data", {}).pop(WIDGET_VIEW, None)
    return [output for output in outputs if output.get("data", True)]
