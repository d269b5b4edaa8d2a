"""Running a notebook, and keeping of its outputs what is the same each time."""

import os
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from nbformat import NotebookNode

# No progress bars among the outputs, and sums that don't depend on how many cores the machine has.
KERNEL_ENVIRONMENT = {"TQDM_DISABLE": "1", "OMP_NUM_THREADS": "1"}
CELL_TIMEOUT = 300
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


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


def lasting_outputs(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """The outputs without live widgets, which mean nothing once their kernel is gone."""
    for output in outputs:
        output.get("data", {}).pop(WIDGET_VIEW, None)
    return [output for output in outputs if output.get("data", True)]
