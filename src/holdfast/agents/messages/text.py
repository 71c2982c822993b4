"""The text of a message: made safe for a terminal before it is stored, and found again in an agent's prompt.

A terminal program obeys control characters, and an agent CLI changes invisible ones. A cleaned text has neither, so
that what is sent is also what comes back.
"""

from __future__ import annotations

import re
import unicodedata

from holdfast.domain.errors import BadInput, TooLarge

CONTENT_MAX = 64 * 1024  # bytes of UTF-8, before and after cleaning

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]"  # CSI: colors, cursor, the marks of a bracketed paste
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC: titles, links, the clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"  # DCS, SOS, PM, APC
    r"|\x1b[\x20-\x2f]*[\x30-\x7e]"  # everything else that begins with ESC
)
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_COMPLETION = re.compile(r"(?:\A|\s)[@$]\S*\Z")
_BARE_COMMANDS = frozenset({"exit", "quit", ":q", ":q!", ":wq", ":wq!"})
_JOINER = "\u200d"
_DROPPED = frozenset({"Cc", "Cf", "Cs"})
_NOT_COMPARED = _DROPPED | {"Zs", "Zl", "Zp"}


def clean_text(text: str) -> str:
    r"""The text as it is sent: NFC, lines ended by `\n` alone, no tabs, control or format characters, ends trimmed.

    A joiner between two emoji stays, because it makes one picture of them. Cleaning a cleaned text changes nothing.

    >>> clean_text("one\r\n\ttwo \x1b[31mred\x1b[0m\x07 ")
    'one\n    two red'
    """
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)).replace("\t", "    ")
    if not (text.isascii() and text.replace("\n", "").isprintable()):
        text = unicodedata.normalize("NFC", _without_controls(text))
    return text.strip()


def check_content(text: object) -> str:
    """The cleaned content of a message. `BadInput` if it is empty or not text, `TooLarge` if it is over 64 KiB."""
    if not isinstance(text, str):
        raise BadInput("the content of a message is text")
    if len(text) <= CONTENT_MAX:
        text = clean_text(text)
    if len(text.encode("utf-8", "replace")) > CONTENT_MAX:
        raise TooLarge(f"the content of a message is at most {CONTENT_MAX // 1024} KiB of UTF-8")
    if not text:
        raise BadInput("the message is empty: its content has no visible character")
    return text


def is_command(text: str) -> bool:
    """Whether an agent CLI may read a cleaned text as a command instead of a prompt.

    >>> [is_command(text) for text in ("/clear", "!ls", "exit", "exit code 1", "run /clear")]
    [True, True, True, False, False]
    """
    return text.lstrip()[:1] in ("/", "!") or text.strip().lower() in _BARE_COMMANDS


def opens_completion(text: str) -> bool:
    """Whether a list of completions may open behind the text, which would take the key that submits it.

    >>> [opens_completion(text) for text in ("look at @READ", "what is $HOME", "mail me@example.com", "@x.")]
    [True, True, False, True]
    """
    return _COMPLETION.search(text) is not None


def contains_message(prompt: str, text: str) -> bool:
    r"""Whether an agent's prompt contains the message as whole consecutive lines.

    A CLI may join queued messages into one prompt and add lines of its own; it also changes blanks and invisible
    characters, so these are not compared.

    >>> contains_message("first\n\nsecond", "second"), contains_message("not the second", "second")
    (True, False)
    """
    lines, wanted = _lines(prompt), _lines(text)
    last = len(lines) - len(wanted)
    return bool(wanted) and any(lines[at : at + len(wanted)] == wanted for at in range(last + 1))


def visible(text: str) -> str:
    """A text without blanks, control and format characters, for comparison.

    >>> visible("a\\tb \\u200bc")
    'abc'
    """
    text = unicodedata.normalize("NFC", _ESCAPES.sub("", text))
    if text.isascii():
        return "".join(c for c in text if "!" <= c <= "~")
    return "".join(c for c in text if unicodedata.category(c) not in _NOT_COMPARED)


def _lines(text: str) -> list[str]:
    """The lines to compare. Empty ones are left out: CLIs add and remove them."""
    lines = (visible(line) for line in _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)).split("\n"))
    return [line for line in lines if line]


def _without_controls(text: str) -> str:
    kept: list[str] = []
    for at, character in enumerate(text):
        if character == _JOINER:
            stays = _ends_emoji(kept) and _is_emoji(text[at + 1 : at + 2])
        else:
            stays = character == "\n" or unicodedata.category(character) not in _DROPPED
        if stays:
            kept.append(character)
    return "".join(kept)


def _ends_emoji(kept: list[str]) -> bool:
    """Whether the text so far ends with an emoji, which a variation selector or a skin tone may follow."""
    before = kept[-2:-1] if kept[-1:] == ["\ufe0f"] else kept[-1:]
    return _is_emoji("".join(before))


def _is_emoji(character: str) -> bool:
    if not character:
        return False
    return 0x1F000 <= ord(character) <= 0x1FAFF or (
        ord(character) >= 0x2190 and unicodedata.category(character) == "So"
    )
