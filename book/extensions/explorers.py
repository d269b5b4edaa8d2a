"""Puts explorers on the page: a slot for the page host to fill, and the figure for readers without JavaScript."""

import json
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

VIEW = "application/vnd.jupyter.widget-view+json"
UNUSED = ("layout", "tabbable", "tooltip")  # ipywidgets' own, meaningless without its manager
STATE = "application/vnd.jupyter.widget-state+json"


class PlaceExplorers(SphinxPostTransform):
    """Replace an explorer's bundle of outputs by a slot that holds its picture in `<noscript>`."""

    default_priority = 3  # before myst-nb selects one output of each bundle, at 4
    formats = ("html",)

    def run(self, **kwargs: Any) -> None:
        for bundle in list(self.document.findall(nodes.container)):
            if bundle.get("nb_element") != "mime_bundle":
                continue
            outputs = {child["mime_type"]: child for child in bundle.children if isinstance(child, nodes.Element)}
            if VIEW in outputs and "image/png" in outputs:
                for picture in outputs["image/png"].findall(nodes.image):
                    picture["alt"] = outputs["text/plain"].astext()
                bundle.replace_self(slot(outputs[VIEW], outputs["image/png"]))


def slot(view: nodes.Element, picture: nodes.Element) -> list[nodes.Node]:
    """The mount point of one explorer, with its picture for pages without JavaScript."""
    script = view.astext()
    model = json.loads(script[script.index(">") + 1 : script.rindex("<")])["model_id"]
    return [
        nodes.raw("", f'<div data-explorer="{model}"><noscript>', format="html"),
        *picture.children,
        nodes.raw("", "</noscript></div>", format="html"),
    ]


def slim_state(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Keep the explorers' state only, and the widget's code once: every model repeats it."""
    for script in context.get("script_files", []):
        attributes = getattr(script, "attributes", {})
        if attributes.get("type") == STATE:
            attributes["body"] = embeddable(slim(json.loads(attributes["body"])))


def embeddable(state: dict[str, Any]) -> str:
    """JSON that no HTML parser takes for markup: neither `</script>` nor `<!--` in a name ends or swallows anything.

    >>> embeddable({"name": "<!-- <script>"})
    '{"name": "\\\\u003c!-- \\\\u003cscript>"}'
    """
    return json.dumps(state, ensure_ascii=False).replace("<", "\\u003c")


def slim(embedded: dict[str, Any]) -> dict[str, Any]:
    """The part of an embedded widget state that the page host reads.

    >>> model = {"_esm": "code", "_css": "style", "_view_name": "AnyView", "slider_0": 3}
    >>> slim({"state": {"a": {"state": model}, "b": {"state": model}, "c": {"state": {"_view_name": "LayoutView"}}}})
    {'state': {'a': {'state': {'_esm': 'code', '_css': 'style', 'slider_0': 3}, 'buffers': []},
               'b': {'state': {'slider_0': 3}, 'buffers': []}}}
    """
    explorers = {key: entry for key, entry in embedded["state"].items() if "_esm" in entry["state"]}
    kept: dict[str, Any] = {}
    for key, entry in explorers.items():
        code = {} if kept else {name: entry["state"][name] for name in ("_esm", "_css")}
        public = {name: value for name, value in entry["state"].items() if name[0] != "_" and name not in UNUSED}
        kept[key] = {"state": code | public, "buffers": entry.get("buffers", [])}
    return {"state": kept}


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_post_transform(PlaceExplorers)
    app.connect("html-page-context", slim_state, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
