"""The report's page: everything is on it, it needs nothing else, and in a browser it zooms."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic_profile import Simulation, busy_program

from hakmem.insight import words
from hakmem.insight.leaks import suspects
from hakmem.insight.page import page, size_bins, threads
from hakmem.insight.tree import as_columns, grow
from hakmem.insight.views import LIVE, PEAK, TIGHT, TOTAL, functions_of, stacks_of
from hakmem.insight.words import size_text

FUNCTIONS = ("remember_session", "read_table", "cache_insert", "parse_request")
# Clicks a frame of the flame graph, then the bar above it, and chooses another view; what the page
# then shows is written into it.
VISITOR = """
<script>
window.addEventListener("load", () => {
  const said = [];
  const click = (kind, name) => {
    const found = [...document.querySelectorAll("#flame g." + kind)]
      .find(one => one.textContent.startsWith(name));
    found.dispatchEvent(new MouseEvent("click", {bubbles: true}));
  };
  const widest = name => [...document.querySelectorAll("#flame g.slice")]
    .find(one => one.textContent.startsWith(name)).getBoundingClientRect().width;
  setTimeout(() => {
    const before = widest("cache_insert");
    click("slice", "handle");
    setTimeout(() => {
      said.push("zoomed:" + document.getElementById("flame").dataset.shown);
      said.push("wider:" + (widest("cache_insert") > 1.2 * before));
      click("pathbar", "all");
      setTimeout(() => {
        said.push("back:" + document.getElementById("flame").dataset.shown);
        document.querySelector("#views [data-view=count]").click();
        said.push("junk:" + (widest("log_line") > 500));
        document.querySelectorAll("#functions th button")[0].click();
        said.push("first:" + document.querySelector("#functions tbody td").dataset.by);
        said.push("short:" + fitted("remember_session", 100) + "," + fitted("a::b<c>::deep", 60));
        document.body.dataset.said = said.join(" ");
      }, 500);
    }, 500);
  }, 500);
});
</script>
"""


@pytest.fixture(scope="module")
def busy() -> Simulation:
    return busy_program()


@pytest.fixture(scope="module")
def html(busy: Simulation) -> str:
    profile = replace(busy.profile(), rss=((5_000_000, 1 << 20), (5_900_000, 300 << 20)))
    stacks = stacks_of(profile, busy.symbols)
    return page(profile, stacks, suspects(profile, stacks))


def own_part(html: str) -> str:
    """Without plotly, which is one script."""
    start = html.index("plotly.js v")
    return html[: html.rindex("<script>", 0, start)] + html[html.index("</script>", start) :]


def test_page_has_it_all(html: str) -> None:
    text = own_part(html)
    for part in ("leaks", "flame", "timeline", "functions", "stacks", "sizes", "threads"):
        assert f'id="{part}"' in text
    for function in FUNCTIONS:
        assert f'data-by="{function}"' in text
    assert "remember_session grows" in text
    assert '"rss":[1048576,314572800]' in text
    for fact in ("library", "sampling", "page size", "settings"):
        assert f"<dt>{fact}</dt>" in text


def test_page_needs_nothing_else(html: str) -> None:
    text = own_part(html)
    assert not re.search(r'(src|href)="', text)
    assert not re.search(r"@import|url\(", text)


def test_names_cannot_break_the_page() -> None:
    made = Simulation()
    name = "</script><b>&amp;"
    made.allocate(made.site("main", name), 1 << 20, 50)
    profile = made.profile()
    text = own_part(page(profile, stacks_of(profile, made.symbols), []))
    assert name not in text
    assert text.count("</script>") == own_part(html_of(busy_program())).count("</script>")


# Runs the page's script with just enough of a browser, and prints what Plotly is given.
STAGE = """
const [, , script, data] = process.argv, fs = require("fs");
const part = () => ({dataset: {}, children: [], clientWidth: 1000, append() {}, on() {},
                     setAttribute() {}, addEventListener() {}});
const heading = {...part(), textContent: fs.readFileSync(data, "utf8")};
global.document = {getElementById: id => id === "data" ? heading : part(), createElement: part,
                   documentElement: {}, querySelectorAll: () => []};
global.window = {...part(), matchMedia: part};
global.getComputedStyle = () => ({getPropertyValue: () => ""});
global.Plotly = {react: (_, traces) => console.log(JSON.stringify(traces[0]))};
require("vm").runInThisContext(fs.readFileSync(script, "utf8"));
"""


def test_names_are_no_markup_to_plotly(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    made = Simulation()
    made.allocate(made.site("main", "map<b>%{label}&lt;"), 1 << 20, 50)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html_of(made))
    assert data
    stage, given = tmp_path / "stage.js", tmp_path / "data.json"
    stage.write_text(STAGE, encoding="utf-8")
    given.write_text(data[1], encoding="utf-8")
    script = Path(words.__file__).parent / "templates" / "page.js"
    done = subprocess.run([node, stage, script, given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trace = json.loads(done.stdout.splitlines()[0])
    name = "map&lt;b>%&#123;label}&amp;lt;"
    assert name in trace["labels"] and name in trace["text"]
    assert any(text.startswith(f"<b>{name}</b><br>") for text in trace["hovertemplate"])


def html_of(made: Simulation) -> str:
    profile = made.profile()
    return page(profile, stacks_of(profile, made.symbols), [])


def test_page_of_a_program_that_freed_everything() -> None:
    """What it had at its peak takes the place of what is left."""
    made = Simulation()
    made.allocate(made.site("main", "work"), 1 << 20, 50, life=0.001)
    profile = replace(made.profile(), has_ended=True)
    assert not profile.blocks
    text = own_part(page(profile, stacks_of(profile, made.symbols), []))
    assert "at the peak, 0 B left" in text
    assert text.count('data-by="work"') == 2
    assert '"first":1' in text
    assert 'id="sizes"' not in text


def test_page_of_a_view(busy: Simulation) -> None:
    """Whichever is asked for is the tables' and the flame graph's."""
    profile = busy.profile()
    stacks = stacks_of(profile, busy.symbols)
    for place, view in enumerate((LIVE, PEAK, TOTAL)):
        text = own_part(page(profile, stacks, [], view))
        assert f'"first":{place}' in text
        assert f"self, {view.name}</button>" in text
        largest = max(stack.bytes(view) for stack in stacks)
        assert f'<td data-by="{largest}">{size_text(largest)}</td>' in text
    assert "memory was tight" not in text


def test_page_of_what_was_live_when_memory_was_tight(busy: Simulation) -> None:
    profile = busy.profile()
    sites = tuple(
        replace(s, tight_bytes=s.live_bytes // 2, tight_objects=1.0, tight_samples=1)
        for s in profile.sites
    )
    then = replace(profile, sites=sites)
    stacks = stacks_of(then, busy.symbols)
    text = own_part(page(then, stacks, [], TIGHT))
    assert f"{size_text(then.tight.value)} live when memory became tight" in text
    assert '"name":"tight"' in text
    assert '"first":4' in text
    assert "Memory was never tight" not in text
    largest = max(stack.bytes(TIGHT) for stack in stacks)
    assert f'data-by="{largest}"' in text


def test_page_of_a_program_for_which_memory_was_never_tight(busy: Simulation) -> None:
    profile = busy.profile()
    text = own_part(page(profile, stacks_of(profile, busy.symbols), [], TIGHT))
    assert "Memory was never tight" in text
    assert "live after" in text


def test_time_line_goes_on_until_now(busy: Simulation) -> None:
    profile = busy.profile()
    later = replace(profile, now_ms=profile.now_ms + 500_000)
    for one, last in ((profile, "1000.0"), (later, "1500.0")):
        text = own_part(page(one, stacks_of(one, busy.symbols), []))
        seconds = re.search(r'"timeline":{"seconds":\[([^]]*)\]', text)
        assert seconds and seconds[1].split(",")[-1] == last
    assert len(seconds[1].split(",")) == len(profile.timeline) + 1


def test_page_of_a_moment_has_rss_of_that(busy: Simulation) -> None:
    now = 5_900_000
    profile = replace(busy.profile(), rss=((now, 300 << 20),), rss_most=400 << 20)
    text = own_part(page(profile, stacks_of(profile, busy.symbols), []))
    assert "300 MiB <small>at most 400 MiB</small>" in text
    assert "Of RSS only this moment is known" in text
    over_time = own_part(html_of(busy))
    assert "resident memory" not in over_time


def test_tree_adds_up(busy: Simulation) -> None:
    stacks = stacks_of(busy.profile(), busy.symbols)
    root = grow(((s.frames, (s.bytes(LIVE),), s.site.samples) for s in stacks), 1)
    whole = sum(stack.site.live_bytes for stack in stacks)
    assert root.values == [whole]
    (main,) = root.children.values()
    assert main.values == [whole]
    columns = as_columns(root)
    for place, parent in enumerate(columns["parent"]):
        assert isinstance(parent, int) and parent < place


def test_recursion_counts_once() -> None:
    made = Simulation()
    made.allocate(made.site("main", "visit", "visit", "visit"), 1 << 20, 50)
    stacks = stacks_of(made.profile(), made.symbols)
    visit = functions_of(stacks, LIVE)[0]
    assert visit.frame.function == "visit"
    assert visit.self_bytes == visit.cumulative_bytes == stacks[0].site.live_bytes


def test_bins_and_threads_hold_every_block(busy: Simulation) -> None:
    profile = busy.profile()
    live = sum(block.weight_bytes for block in profile.blocks)
    bins = size_bins(profile.blocks)
    assert sum(one.bytes for one in bins) == live
    assert bins[0].label == "≤ 4 KiB"
    assert sum(one.live.value for one in threads(profile)) == live


def browser() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.skip("no Chromium is installed")


def test_page_in_a_browser(html: str, tmp_path: Path) -> None:
    program = browser()
    path = tmp_path / "page.html"
    path.write_text(html.replace("</body>", f"{VISITOR}</body>"), encoding="utf-8")
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1280,1600",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=20000",
        "--dump-dom",
        path.as_uri(),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    said = re.search(r'data-said="([^"]*)"', result.stdout)
    assert said, result.stderr[-2000:]
    assert said[1].split() == [
        "zoomed:handle",
        "wider:true",
        "back:all",
        "junk:true",
        "first:serve",
        "short:remember_se…,deep",
    ]
