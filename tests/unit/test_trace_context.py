"""How a process tells the next one of a trace."""

import pytest

from deployments.trace_context import NOT_TRACED, Sender, Trace, sender_of, traces_of

# The example of the recommendation, section 3.2.3.
SAMPLED = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE = Trace(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7)
UNRECORDED = Trace(2**128 - 1, 2**64 - 1)


@pytest.mark.parametrize(
    ("header", "sender"),
    [
        (SAMPLED, Sender(TRACE, records=True)),
        *((SAMPLED[:-2] + flags, Sender(TRACE, records=True)) for flags in ("03", "ff")),
        (SAMPLED[:-2] + "00", Sender(TRACE, records=False)),
        (NOT_TRACED, Sender(UNRECORDED, records=False)),
        ("cc" + SAMPLED[2:] + "-what-the-future-brings", Sender(TRACE, records=True)),
    ],
)
def test_a_header_tells_of_its_trace_and_whether_the_sender_records_it(header, sender):
    assert sender_of(header) == sender
    assert str(TRACE) == SAMPLED


@pytest.mark.parametrize(
    "header",
    [
        "",
        "rubbish",
        SAMPLED[:-1],
        SAMPLED.upper(),
        SAMPLED + "-what-the-future-brings",
        "ff" + SAMPLED[2:],
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        SAMPLED + "\n",
        SAMPLED + "0" * 100_000,
    ],
)
def test_what_is_not_of_the_form_says_nothing(header):
    assert sender_of(header) is None


def test_each_trace_is_named_once():
    other = Trace(1, 2)
    assert traces_of([None, TRACE, other, TRACE]) == [TRACE, other]
