"""How the page looks: light or dark as the reader's screen is, and on paper.

Rule: colours have names for what they mean, and each means the same in every chart.
"""

from typing import Final

STYLE: Final = """
:root {
  --ground: #fbfaf8; --paper: #ffffff; --ink: #22262b; --soft: #667079; --rule: #e3e1dc;
  --good: #8fc7a4; --bad: #c8373c; --warn: #eebb55; --quiet: #c9ced4; --blue: #2f6fb5;
  --violet: #8a63b8; --teal: #1f9a97; --orange: #d97a2b; --shade: 47, 111, 181;
}
@media (prefers-color-scheme: dark) { :root {
  --ground: #16191d; --paper: #1d2126; --ink: #e4e6e8; --soft: #98a2ac; --rule: #333a42;
  --good: #3c7d55; --bad: #ef6a67; --warn: #b98a2c; --quiet: #78838d; --blue: #6aa9ea;
  --violet: #b696e0; --teal: #4cc3bf; --orange: #f0a061; --shade: 106, 169, 234;
} }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 1320px; display: grid; gap: 32px;
  grid-template-columns: 220px minmax(0, 1fr); padding: 24px;
  background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
nav { position: sticky; top: 24px; align-self: start; font-size: 14px; }
nav h2 { font-size: 12px; text-transform: uppercase; letter-spacing: .08em; color: var(--soft);
  margin: 6px 0; }
nav ol { list-style: none; margin: 0; padding: 0; }
nav a { display: block; padding: 3px 0; color: inherit; text-decoration: none; }
nav a:hover, nav a:focus { color: var(--blue); text-decoration: underline; }
h1 { font-size: 30px; line-height: 1.2; margin: 0; }
.under { color: var(--soft); margin: 2px 0 14px; }
.summary { background: var(--paper); border: 1px solid var(--rule); border-radius: 8px;
  padding: 14px 18px 14px 34px; margin: 0; }
.summary li { margin: 3px 0; overflow-wrap: anywhere; }
section { margin-top: 40px; }
section h2 { font-size: 21px; border-bottom: 1px solid var(--rule); padding-bottom: 4px; }
p { overflow-wrap: anywhere; }
figure { margin: 16px 0; background: var(--paper); border: 1px solid var(--rule);
  border-radius: 8px; padding: 12px; }
figcaption { color: var(--soft); font-size: 14px; padding: 6px 4px 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; margin: 12px 0; }
caption { text-align: left; color: var(--soft); padding-bottom: 4px; }
th, td { text-align: left; padding: 4px 8px; border-bottom: 1px solid var(--rule);
  vertical-align: top; }
th { font-weight: 600; color: var(--soft); }
td { max-width: 420px; overflow-wrap: break-word; }
td.name { white-space: nowrap; }
th.right { text-align: right; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.cell { background: rgba(var(--shade), calc(var(--share) * .55)); }
.grid th[scope=row] { white-space: nowrap; }
details { margin: 12px 0; }
summary { cursor: pointer; color: var(--blue); }
footer { margin: 48px 0 12px; color: var(--soft); font-size: 13px; overflow-wrap: anywhere; }
.chart { display: block; width: 100%; height: auto; overflow: visible; }
.chart text { font: 12px system-ui, sans-serif; fill: var(--ink); }
.chart .tick, .chart .name { fill: var(--soft); }
.chart .in-step { fill: #14171a; }
.chart .mark-words { fill: var(--bad); font-weight: 600; }
.chart .grid { stroke: var(--rule); stroke-width: 1; }
.chart .mark { stroke: var(--bad); stroke-width: 1.5; stroke-dasharray: 4 3; }
.up { fill: var(--good); } .down { fill: var(--bad); } .paused { fill: var(--warn); }
.reign { fill: none; stroke: var(--blue); stroke-width: 3; }
.bad { fill: var(--bad); } .warn { fill: var(--warn); }
.area { fill-opacity: .75; } .line { fill: none; stroke-width: 2; }
.line.one { stroke: var(--blue); } .line.two { stroke: var(--orange); }
.line.three { stroke: var(--teal); } .line.four { stroke: var(--violet); }
.key.one { fill: var(--blue); } .key.two { fill: var(--orange); }
.key.three { fill: var(--teal); } .key.four { fill: var(--violet); }
.heat { fill: var(--bad); }
.range { fill: var(--blue); fill-opacity: .55; } .whisker { stroke: var(--quiet); stroke-width: 2; }
.middle { stroke: var(--ink); stroke-width: 2; } circle { fill: var(--orange); }
.step { stroke: var(--paper); stroke-width: 1; }
.wait { fill: var(--quiet); } .queue { fill: var(--warn); } .decide { fill: var(--teal); }
.write { fill: var(--violet); } .tell { fill: var(--blue); } .produce { fill: var(--good); }
@media (max-width: 900px) {
  body { grid-template-columns: minmax(0, 1fr); padding: 14px; gap: 12px; }
  nav { position: static; } nav ol { columns: 2; } .chart { min-width: 640px; }
  figure { overflow-x: auto; } }
@media print { body { display: block; max-width: none; } nav { display: none; }
  figure, table { break-inside: avoid; } }
"""
