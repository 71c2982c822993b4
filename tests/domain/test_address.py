"""Address: one text with a scheme, and a URL that a request can safely be built from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain_strategies import examples
from holdfast.domain.address import ADDRESS_MAX, KINDS, Address, parse_address, without_tokens
from holdfast.domain.errors import BadInput


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("https://example.com/hook?x=1", "https", "//example.com/hook?x=1"),
        ("http://127.0.0.1:8080/", "https", "//127.0.0.1:8080/"),
        ("https://[::1]:8443/x", "https", "//[::1]:8443/x"),
        ("handler:ship", "handler", "ship"),
        ("handler:app.orders:ship.<locals>.inner", "handler", "app.orders:ship.<locals>.inner"),
        ("session:0199-ab_c.d:e@f", "session", "0199-ab_c.d:e@f"),
    ],
)
def test_an_address_keeps_its_text_and_knows_its_kind(text, kind, name):
    assert parse_address(text) == Address(kind, text)
    assert parse_address(text).name == name
    assert kind in KINDS


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "1 to 2048 characters"),
        (None, "1 to 2048 characters"),
        (b"handler:x", "1 to 2048 characters"),
        ("handler:" + "x" * ADDRESS_MAX, "1 to 2048 characters"),
        ("ship", "is not an address"),
        ("mailto:a@example.com", "is not an address"),
        ("file:///etc/passwd", "is not an address"),
        ("handler:", "is not an address"),
        ("handler:two words", "is not an address"),
        ("handler:ship\n", "is not an address"),
        ("handler:1st", "is not an address"),
        ("HTTPS://example.com", "lower case: write https:, not HTTPS:"),
        ("Http://example.com", "lower case: write http:, not Http:"),
        ("session:", "is not an address"),
        ("session:-x", "is not an address"),
        ("session:a;b", "is not an address"),
        ("session:" + "x" * 201, "is not an address"),
        ("https:example.com", "no host"),
        ("https:///path", "no host"),
        ("https://:443/", "no host"),
        ("https://exa mple.com", "spaces"),
        ("https://example.com\\@evil.example", "backslashes"),
        ("https://bücher.example", "non-ASCII characters"),
        ("https://example.com/\r\nHost: evil", "spaces"),
        ("https://user:pw@example.com", "user name or password"),
        ("https://@example.com", "user name or password"),
        ("https://example.com/#top", "#fragment"),
        ("https://example.com:0/", "port 0"),
        ("https://example.com:65536/", "cannot be read"),
        ("https://example.com:http/", "cannot be read"),
        ("https://[::1", "cannot be read"),
    ],
)
def test_an_invalid_address_is_refused_with_the_reason(text, named):
    with pytest.raises(BadInput) as refused:
        parse_address(text)
    assert named in refused.value.message
    assert "pw" not in refused.value.message


@pytest.mark.parametrize("text", ["Session:abc", "SESSION:abc", "Handler:ship"])
def test_one_session_or_handler_has_one_spelling(text):
    """Two spellings of one session would be two lanes into one terminal."""
    with pytest.raises(BadInput, match="lower case"):
        parse_address(text)


@given(st.text(max_size=60) | st.text(max_size=40).map("https://".__add__))
@examples
def test_any_text_is_an_address_or_an_error_fit_for_a_terminal(text):
    message = ""
    try:
        assert parse_address(text).text == text
        assert text.isascii()
        assert text.isprintable()
    except BadInput as refused:
        message = refused.message
    assert message.isprintable()
    assert len(message) < 250


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.:<>-]{0,199}", fullmatch=True))
@examples
def test_every_handler_name_of_python_is_an_address(name):
    assert parse_address(f"handler:{name}").name == name


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("handler:ship", "handler:ship"),
        ("https://example.com", "https://example.com"),
        ("https://example.com/hooks/orders", "https://example.com/hooks/orders"),
        ("https://example.com/hook?token=abc", "https://example.com/hook?…"),
        ("https://example.com?token=abc", "https://example.com?…"),
        ("https://hooks.slack.com/services/T024BE7LD/B01/kXyZ", "https://hooks.slack.com/services/T024BE7LD/B01/…"),
        ("https://discord.com/api/webhooks/42/shortToken", "https://discord.com/api/webhooks/42/…"),
        ("https://discord.com/api/webhooks/42/shortToken/slack", "https://discord.com/api/webhooks/42/…/slack"),
        ("https://api.telegram.org/bot1:x/sendMessage?chat_id=4", "https://api.telegram.org/…/sendMessage?…"),
        ("https://x.example/a/0123456789abcdef0123/b", "https://x.example/a/…/b"),
        ("https://user:pass@x.example/a", "https://…@x.example/a"),
    ],
)
def test_a_part_that_may_be_a_token_is_masked(address: str, shown: str) -> None:
    assert without_tokens(address) == shown


def test_a_masked_url_is_not_taken_for_an_address() -> None:
    for url in ("https://hooks.slack.com/services/T0/B0/…", "https://example.com/hook?…"):
        with pytest.raises(BadInput, match="give the full URL"):
            parse_address(url)
