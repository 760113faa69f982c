"""Show formulas and roles of docstrings (`:math:`, `:class:`) as plain code, since the site loads no scripts."""

import re
import textwrap

import griffe

ROLE = re.compile(r":(?:math|class|meth|func|mod|attr):`~?([^`]+)`")
DISPLAY = re.compile(r"^( *)\.\. math::[ \t]*(.*(?:\n(?:\1 +.+|[ \t]*(?=\n\1 +)))*)", re.MULTILINE)


def plain(text: str) -> str:
    """A docstring with formulas as code blocks and roles as code."""
    return ROLE.sub(r"`\1`", DISPLAY.sub(formula, text))


def formula(match: re.Match[str]) -> str:
    """A displayed formula as a code block of the same indentation."""
    body = textwrap.dedent(match[2] if "\n" not in match[2] else re.sub(r"^\s*\n?", "", match[2], count=1)).strip()
    return "\n".join(match[1] + line for line in ["```text", *body.splitlines(), "```"])


class PlainRoles(griffe.Extension):
    """The extension that mkdocstrings loads."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = plain(obj.docstring.value)
