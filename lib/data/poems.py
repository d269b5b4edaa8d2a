"""Public-domain verse: Tang poems in Chinese, short poems and stanzas in English."""

from importlib.resources import files
from typing import NamedTuple

import lib.data.texts


class Poem(NamedTuple):
    """A poem and who wrote it."""

    title: str
    author: str
    lines: tuple[str, ...]
    """As printed, with punctuation: a couplet a line in Chinese; in English an empty line parts stanzas."""
    text: str
    """The lines in one piece: joined as they are in Chinese, by line breaks in English."""


def poems(language: str) -> list[Poem]:
    """Return the book's corpus of verse, the four of `poems_by_heart` first.

    In Chinese 167 poems of the Tang, quatrains and regulated verse in lines of five or seven characters, simplified,
    in readings current in school books; in English 56 short poems and stanzas by Shakespeare to Yeats.

    Args:
        language: "zh" or "en".

    Raises:
        ValueError: there is no verse in that language.

    >>> poem = poems("zh")[2]
    >>> poem.title, poem.author, poem.lines
    ('登鹳雀楼', '王之涣', ('白日依山尽，黄河入海流。', '欲穷千里目，更上一层楼。'))
    """
    if language not in _JOINTS:
        raise ValueError(f'language must be "zh" or "en", got {language!r}')
    source = files(lib.data.texts).joinpath(f"{language}.txt").read_text("utf-8")
    return [_poem(part, _JOINTS[language]) for part in source.removeprefix("# ").split("\n# ")]


def poems_by_heart(language: str) -> list[Poem]:
    """Return four quatrains to be learned by heart; each begins with a character of its own.

    Args:
        language: "zh" or "en".

    Raises:
        ValueError: there is no verse in that language.

    >>> [poem.text[0] for poem in poems_by_heart("zh")], [poem.text[0] for poem in poems_by_heart("en")]
    (['床', '春', '白', '红'], ['T', 'G', 'B', 'L'])
    """
    return poems(language)[:4]


_JOINTS = {"zh": "", "en": "\n"}


def _poem(source: str, joint: str) -> Poem:
    """Read a heading "title | author" and the lines below it."""
    heading, *lines = source.strip().split("\n")
    title, author = heading.split(" | ")
    return Poem(title, author, tuple(lines), joint.join(lines))
