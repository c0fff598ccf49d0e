#!/usr/bin/env python3
"""Makes the pictures of the README from what zctrace really prints: `sudo docs/pictures/make.py`.

`report.svg` is the start of a report as a terminal shows it, and `page.svg` the start of a page of
`--html`. `ZCTRACE` names the program if it is not on the PATH.
"""

import os
import re
import subprocess
import tempfile
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
ZCTRACE = os.environ.get("ZCTRACE", "zctrace")
COLUMNS, LINES = 110, 20
LINE_HEIGHT, CHARACTER_WIDTH, MARGIN = 18, 7.83, 14
STYLES = {"1": "font-weight:bold", "2": "opacity:.65", "31": "fill:#e06c75", "32": "fill:#98c379", "33": "fill:#e5c07b"}


def traced(folder, *words):
    """What zctrace writes to stderr with these options and this command."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS)}
    run = subprocess.run([ZCTRACE, *words], cwd=folder, env=environment, capture_output=True, check=True)
    return run.stderr.decode()


def spans(line):
    """A line with escape sequences, as SVG."""
    style, svg = "", []
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            codes = part[2:-1].split(";")
            style = ";".join(STYLES[code] for code in codes if code in STYLES)
        elif part:
            svg.append(f'<tspan style="{style}">{escape(part)}</tspan>')
    return "".join(svg)


def wrapped(line):
    """A line as zctrace folds it on a terminal."""
    return "\n".join(textwrap.wrap(line, COLUMNS, subsequent_indent="  ", drop_whitespace=False)) or line


def terminal(typed, text):
    """A terminal in which this was typed and printed."""
    printed = [line if "\x1b" in line else wrapped(line) for line in text.rstrip().split("\n")]
    lines = "\n".join([f"\x1b[2m$\x1b[0m {typed}", *printed]).split("\n")[:LINES]
    width, height = int(COLUMNS * CHARACTER_WIDTH) + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN
    rows = "\n".join(
        f'<text x="{MARGIN}" y="{MARGIN + (row + 0.75) * LINE_HEIGHT:.0f}" xml:space="preserve">{spans(line)}</text>'
        for row, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13" fill="#abb2bf">\n'
        f'<rect width="100%" height="100%" rx="8" fill="#1e2127"/>\n{rows}\n</svg>\n'
    )


def page(html):
    """The start of a page, which is well-formed XML."""
    style = re.search(r"<style>(.*?)</style>", html, re.S)[1]
    body = re.search(r"<body>(.*)</body>", html, re.S)[1]
    body = body.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ')
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 620" width="1000" height="620">\n'
        f'<foreignObject width="1000" height="620"><html xmlns="http://www.w3.org/1999/xhtml"><style>{style}</style>\n'
        f'<body>{body}</body></html></foreignObject>\n</svg>\n'
    )


def main():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").write_bytes(os.urandom(1_000_000))
        report = traced(folder, "--color", "always", "cp", "in", "out")
        (HERE / "report.svg").write_text(terminal("sudo zctrace cp in out", report))
        pipeline = "cat in | gzip -1 | wc -c >size"
        traced(folder, "--html", "page.html", "-o", "/dev/null", "sh", "-c", pipeline)
        (HERE / "page.svg").write_text(page(Path(folder, "page.html").read_text()))


if __name__ == "__main__":
    main()
