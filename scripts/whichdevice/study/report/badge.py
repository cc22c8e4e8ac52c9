"""A badge for a repository's front page: what a training takes, on which device, as a small picture."""

from html import escape

from whichdevice.base.errors import StudyError
from whichdevice.decide import Answer
from whichdevice.decide.words import kwh_words, say, time_of, usd_of

LETTER, EDGE = 6.3, 12.0  # pixels of a letter, and at the ends of each half
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{whole:g}" height="20" role="img"
 aria-label="{label}: {text}">
<title>{label}: {text}</title>
<clipPath id="round"><rect width="{whole:g}" height="20" rx="3"/></clipPath>
<g clip-path="url(#round)"><rect width="{left:g}" height="20" fill="#444b53"/>
<rect x="{left:g}" width="{right:g}" height="20" fill="#0a6e4f"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_middle:g}" y="14" textLength="{left_text:g}">{label}</text>
<text x="{right_middle:g}" y="14" textLength="{right_text:g}">{text}</text></g>
</svg>
"""


def badge(answer: Answer) -> str:
    """Return the picture as text; raises StudyError where no device has an answer."""
    pick = answer.pick
    if pick is None:
        raise StudyError("--badge: no device has an answer")
    label = say(f"badge_{answer.work.mode}" if answer.work.mode in ("predict", "generate") else "badge")
    parts = [pick.device, time_of(pick, False), *([] if pick.usd is None else [say("usd", usd=usd_of(pick, False))])]
    text = " · ".join([*parts, *([] if pick.kwh is None else [kwh_words(pick)])])
    left_text, right_text = LETTER * len(label), LETTER * len(text)
    left, right = left_text + EDGE, right_text + EDGE
    return BADGE.format(
        whole=left + right, left=left, right=right, left_middle=left / 2, right_middle=left + right / 2,
        left_text=left_text, right_text=right_text, label=escape(label), text=escape(text),
    )  # fmt: skip
