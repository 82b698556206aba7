"""The figures as a picture: docs/performance.svg. No library; readable on light and on dark pages."""
import math
from html import escape

import report
from goals import BARE, HTTP, OURS, cell

LEFT, WIDTH, GAP, RIGHT = 128, 380, 66, 300  # names; latencies; between; rates
ROW, BLOCK, TOP = 17, 34, 84
# page, ink, soft ink, lines of the grid, the bare program, peers, Glovebox
LIGHT = ("#ffffff", "#1f2328", "#59636e", "#d1d9e0", "#59636e", "#3b76c4", "#c2410c")
DARK = ("#0d1117", "#e6edf3", "#9198a1", "#3d444d", "#9198a1", "#6cb0ff", "#ff9d5c")


def _colours(page, ink, soft, grid, *kinds):
    """Plain rules, no variables: not every program that shows SVG knows these."""
    rules = [f".page {{ fill: {page}; }} text {{ fill: {ink}; }} .soft {{ fill: {soft}; }} .grid {{ stroke: {grid}; }}"]
    rules += [f".{kind} .dot {{ fill: {colour}; }} .{kind} line {{ stroke: {colour}; }}" for kind, colour in zip(("bare", "peer", "ours"), kinds)]
    return " ".join(rules)


STYLE = f"""
  svg {{ font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }}
  .head, .ours text {{ font-weight: 600; }} .title {{ font-size: 15px; font-weight: 600; }}
  .stem {{ stroke-width: 2; }} .tail {{ stroke-width: 1; stroke-dasharray: 2 2; }}
  {_colours(*LIGHT)}
  @media (prefers-color-scheme: dark) {{ {_colours(*DARK)} }}
"""


class Axis:
    """Powers of ten, from the left edge on."""

    def __init__(self, x, width, values, unit):
        self.x, self.width, self.unit = x, width, unit
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def at(self, value):
        return self.x + self.width * (math.log10(value) - self.low) / max(1, self.high - self.low)

    def draw(self, top, bottom):
        for power in range(self.low, self.high + 1):
            x = self.at(10 ** power)
            yield f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}"/>'
            for y in (top - 5, bottom + 14):
                yield f'<text class="soft" x="{x:.1f}" y="{y}" text-anchor="middle">{10 ** power:g}{self.unit}</text>'


def _short(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _mark(axis, y, value, until=None):
    """A stem to the value, a dashed line on to `until`, and the number."""
    x, end = axis.at(value), axis.at(until or value)
    yield f'<line class="stem" x1="{axis.x}" y1="{y}" x2="{x:.1f}" y2="{y}"/><circle class="dot" cx="{x:.1f}" cy="{y}" r="3.5"/>'
    if until:
        yield f'<line class="tail" x1="{x:.1f}" y1="{y}" x2="{end:.1f}" y2="{y}"/><line class="stem" x1="{end:.1f}" y1="{y - 3}" x2="{end:.1f}" y2="{y + 3}"/>'
    yield f'<text x="{max(x, end) + 7:.1f}" y="{y + 4}">{_short(value)}</text>'


def _rows(results):
    """(program, [(subject, row with 1 client, row with 8)])"""
    for program in results["programs"]:
        rows = [(s, cell(results, program, 1, s), cell(results, program, 8, s)) for s in results["subjects"]]
        if any(one for _, one, _ in rows):
            yield results["programs"][program], [row for row in rows if row[1] or row[2]]


def _doubts(results):
    return ("; a short run" if results["quick"] else "") + ("; the machine was not idle" if results["machine"]["busy_before"] > report.BUSY else "")


def draw(results):
    blocks = list(_rows(results))
    if not blocks:
        raise ValueError("no calls were measured: there is nothing to draw")
    ones, eights = ([r for _, rows in blocks for row in rows if (r := row[k])] for k in (1, 2))
    latency = Axis(LEFT, WIDTH, [r["p50_ms"] for r in ones] + [r["p99_ms"] for r in ones], " ms")
    rate = Axis(LEFT + WIDTH + GAP, RIGHT, [r["rate"] for r in eights] or [1, 10], "/s")
    height = TOP + sum(BLOCK + ROW * len(rows) for _, rows in blocks)
    m = results["machine"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + GAP + RIGHT + 56} {height + 50}" role="img">',
           "<title>Time of one call, and calls per second, of Glovebox and its peers</title>", f"<style>{STYLE}</style>", '<rect class="page" width="100%" height="100%" rx="6"/>',
           f'<text class="title" x="12" y="24">A fresh box for every call: {escape(HTTP)} beside the bare program and its peers</text>',
           f'<text class="head" x="{LEFT}" y="50">one client: p50, and p99 at the end of the dashes</text>',
           f'<text class="head" x="{rate.x}" y="50">8 clients: calls per second</text>',
           *latency.draw(TOP, height), *rate.draw(TOP, height)]
    y = TOP
    for title, rows in blocks:
        out.append(f'<text class="head" x="12" y="{y + 20}">{escape(title.replace("`", ""))}</text>')
        y += BLOCK
        for subject, one, eight in rows:
            kind = "bare" if subject == BARE else "ours" if subject in OURS else "peer"
            out.append(f'<g class="{kind}"><text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(subject)}</text>')
            out += _mark(latency, y, one["p50_ms"], one["p99_ms"]) if one else []
            out += [*(_mark(rate, y, eight["rate"]) if eight else []), "</g>"]
            y += ROW
    out.append(f'<text class="soft" x="12" y="{height + 40}">{escape(m["date"])}, {m["cpus"]} CPUs, Linux {escape(m["kernel"])}, cgroup {m["cgroup"]}; logarithmic scales{_doubts(results)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"
