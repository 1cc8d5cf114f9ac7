"""Checks that rectangles of one row of a drawing do not overlap, and that something is drawn of each program."""
import re
import sys
import xml.dom.minidom

svg = xml.dom.minidom.parse(sys.argv[1])
rows = {}
for rect in svg.getElementsByTagName("rect"):
    titles = rect.getElementsByTagName("title")
    if titles:
        text = titles[0].firstChild.data
        length, begin = map(int, re.search(r", (\d+) cycles from (-?\d+)", text).groups())
        # The map of shared memory has rectangles above one another.
        if rect.getAttribute("height") == "15.0":
            rows.setdefault(rect.getAttribute("y"), []).append((begin, begin + length, text))
programs = [t for t in svg.getElementsByTagName("text") if t.getAttribute("font-weight") == "bold"]
assert programs and len(rows) >= 3 * len(programs), (len(programs), len(rows))
for spans in rows.values():
    spans.sort()
    for one, other in zip(spans, spans[1:]):
        assert one[1] <= other[0], (one, other)
names = [p.firstChild.data for p in programs]
assert len(set(names)) == len(names), names
