"""How many children an element of MathML takes, and where a page departs from it."""

from bs4 import BeautifulSoup

CHILDREN = {
    "mfrac": 2,
    "mroot": 2,
    "msub": 2,
    "msup": 2,
    "munder": 2,
    "mover": 2,
    "msubsup": 3,
    "munderover": 3,
}


def faults(page: BeautifulSoup) -> list[str]:
    """Elements with more or fewer children than MathML allows, as they stand."""
    elements = page.select(", ".join(f"math {name}" for name in CHILDREN))
    return [str(element) for element in elements if len(element.find_all(recursive=False)) != CHILDREN[element.name]]
