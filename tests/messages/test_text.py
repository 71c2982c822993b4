"""The text of a message: cleaning, commands, completions, and finding it again in a prompt."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples
from holdfast.agents.messages.text import (
    CONTENT_MAX,
    check_content,
    clean_text,
    contains_message,
    is_command,
    opens_completion,
    visible,
)
from holdfast.domain.errors import BadInput, TooLarge

PIECES = [
    "\x1b[200~", "\x1b[201~", "\x1b]0;title\x07", "\x1b]8;;u\x1b\\", "\x1bP1$r\x1b\\", "\x9b201~", "\x1b", "\r", "\r\n",
    "\n", "\x00", "\x07", "\x7f", "\t", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\u200b", "\ufeff", "\u200d",
    "\u202e", "\u00ad", "e\u0301", "\u0301", "👩\u200d💻", "❤\ufe0f\u200d🔥", "👍🏽\u200d", "ab", " ", "漢", "/",
    "!", "@",
]  # fmt: skip
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=25).map("".join)


@given(hostile)
@examples
def test_cleaning_a_cleaned_text_changes_nothing(text: str) -> None:
    assert clean_text(clean_text(text)) == clean_text(text)


@given(hostile)
@examples
def test_a_cleaned_text_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    cleaned = clean_text(text)
    kinds = {unicodedata.category(c) for c in cleaned if c not in "\n\u200d"}
    assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert unicodedata.is_normalized("NFC", cleaned)
    assert cleaned == cleaned.strip()
    cleaned.encode()  # no lone surrogate is left


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=60))
@examples
def test_visible_characters_stay(text: str) -> None:
    assert clean_text(text) == unicodedata.normalize("NFC", text)


@given(hostile, hostile, hostile)
@examples
def test_a_prompt_that_holds_the_message_between_other_lines_contains_it(before: str, text: str, after: str) -> None:
    cleaned = clean_text(text)
    if visible(cleaned):
        assert contains_message(f"{before}\n\n{cleaned}\n{after}", cleaned)
        assert contains_message(cleaned, cleaned)


@pytest.mark.parametrize(
    ("sent", "cleaned"),
    [
        ("safe \x1b[201~\r!touch x\r", "safe \n!touch x"),
        ("a\r\nb\rc\x0bd\x0ce\x85f\u2028g\u2029h", "a\nb\nc\nd\ne\nf\ng\nh"),
        ("\tindented\n\tmore", "indented\n    more"),
        ("cafe\u0301", "café"),
        ("zero\u200bwidth \u202eright\u202c \ufeffmark", "zerowidth right mark"),
        ("👩\u200d💻 ❤\ufe0f\u200d🔥 👩🏽\u200d🚀", "👩\u200d💻 ❤\ufe0f\u200d🔥 👩🏽\u200d🚀"),
        ("a\u200db \u200d👩\u200d", "ab 👩"),
        ("\x1b]0;evil title\x07text", "text"),
        ("\x1b]52;c;never closed", "52;c;never closed"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("blanks  \n inside   stay", "blanks  \n inside   stay"),
    ],
)
def test_how_a_text_is_cleaned(sent: str, cleaned: str) -> None:
    assert clean_text(sent) == cleaned


@pytest.mark.parametrize("text", ["", "  \n\t", "\x1b[31m\u200b", 7, None])
def test_a_message_without_visible_text_is_refused(text: object) -> None:
    with pytest.raises(BadInput):
        check_content(text)


def test_content_is_at_most_64_kib() -> None:
    assert check_content("x" * CONTENT_MAX) == "x" * CONTENT_MAX
    assert check_content("\t" * (CONTENT_MAX // 2) + "x") == "x"  # the limit is for what is left
    for text in ("x" * (CONTENT_MAX + 1), "é" * (CONTENT_MAX // 2 + 1)):
        with pytest.raises(TooLarge):
            check_content(text)


@pytest.mark.parametrize("text", ["/clear", "!ls", "\n /clear", " !ls", "exit", "Quit", ":q", ":wq!", "/tmp/x is full"])
def test_what_a_cli_may_read_as_a_command(text: str) -> None:
    assert is_command(text)


@pytest.mark.parametrize("text", ["exit 1", "please /clear", "see !important", "a:q", "why not?", "#memo"])
def test_what_no_cli_reads_as_a_command(text: str) -> None:
    assert not is_command(text)


def test_a_text_that_ends_in_a_name_opens_a_completion() -> None:
    assert all(opens_completion(text) for text in ("@src", "see @src/main.py", "line\n$HOME", "mention @"))
    assert not any(opens_completion(text) for text in ("see @src now", "a@b.c", "costs 5$", "x"))


def test_part_of_a_line_is_not_the_message() -> None:
    assert not contains_message("draftMESSAGE", "MESSAGE")
    assert not contains_message("one\ntwo and more", "one\ntwo")
    assert contains_message("ALPHA\n\nBETA", "BETA")
    assert contains_message("Hi\n  there\n--- Content from referenced files ---\nx", "Hi\nthere")
    assert not contains_message("one\nbetween\ntwo", "one\ntwo")
    assert not contains_message("anything", "")
