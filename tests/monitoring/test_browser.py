# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, headless: what a person sees on a desk and on a phone; hostile names stay text."""

import shutil
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.pose import Pose
from llm_planner.monitoring.board import Board
from llm_planner.monitoring.hub import Hub
from llm_planner.monitoring.web import WebServer, build_app
from llm_planner.serving.meter import Totals
from tests.cli.test_top_screen import make_goal, make_view
from tests.monitoring.test_robot_view import make_thing
from tests.monitoring.test_robot_view import make_view as make_robot
from tests.monitoring.test_rows import accepted, finished, report, segment

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: requirements/browser.txt")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no chromium is installed (Debian: apt-get install chromium)"),
    pytest.mark.slow,
]

HOSTILE = '<img src=x onerror="document.title=`taken`"><script>document.title="taken"</script>'
DESK, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])  # tests may run as root
        yield browser
        browser.close()


@pytest.fixture
def shown():
    """A board, its hub, and where a browser finds them."""
    board = Board(MonotonicClock())
    hub = Hub(board.whole)
    server = WebServer(build_app(hub, lambda: board.whole()[1]), "127.0.0.1", 0)
    yield board, hub, server.url
    server.close()


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(browser, shown, request):
    """An open page; it must not complain on its console."""
    page, complaints = browser.new_page(viewport=request.param), []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_default_timeout(10_000)
    fill(shown[0])
    page.goto(shown[2])
    page.wait_for_selector("#queue tbody tr")
    yield page
    page.close()
    assert not complaints


def fill(board, robot_id=HOSTILE):
    """Lets a fleet of one robot, whose every text is hostile, do a few things."""
    with board.changing() as (state, now_s):
        view = make_view(make_goal(robot_id, falls_in_s=-1.0))
        for at_s, steps in ((now_s - 2.0, 0), (now_s, 100)):
            totals = Totals(num_steps=steps, num_output_tokens=2 * steps, busy_s=steps / 100)
            state.receive_planner(replace(view, loop=replace(view.loop, at_s=at_s, totals=totals), age_s=0.0), now_s)
        for line in (
            accepted(now_s - 20.0, robot_id=robot_id),
            segment(now_s - 19.0, text=HOSTILE),
            report(now_s - 18.0, "started"),
            report(now_s - 8.0, "succeeded", duration_s=2.5),
            {**finished(now_s - 7.0, error_code=300), "error_msg": HOSTILE},
        ):
            state.receive_event(line, now_s)
        state.receive_robot(make_robot(robot_id, things=(make_thing(HOSTILE),), held=HOSTILE), now_s)
        state.receive_diagnostic(HOSTILE, 2, HOSTILE, now_s)


def painted(page, selector):
    """Returns how many pixels of a canvas are not transparent."""
    return page.evaluate(
        """(selector) => {
            const canvas = document.querySelector(selector);
            const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            return pixels.filter((value, index) => index % 4 === 3 && value > 0).length;
        }""",
        selector,
    )


def test_numbers_queue_rows_map_and_prediction_are_shown(page):
    assert page.text_content("#state") == "active"
    assert page.text_content("#slots-text") == "4 of 8"
    assert page.text_content("#kv-text") == "40 %"
    assert page.text_content("#tokens-text") == "100 /s"
    assert "1 segment: median error 25.0 %" in page.text_content("#measured-text")
    page.wait_for_timeout(300)
    for canvas in ("#rows", ".tile canvas", "#measured"):
        assert painted(page, canvas) > 500, canvas
    assert page.locator("#queue .late").count() == 1


def test_text_of_others_stays_text(page):
    assert page.text_content("#queue tbody td") == HOSTILE
    assert page.text_content(".tile b") == HOSTILE
    assert HOSTILE in page.text_content("#log")
    assert HOSTILE in page.text_content("#alerts")
    assert page.title() == "llm_planner"
    assert page.locator("main img, main script").count() == 0


def test_nothing_hangs_over_the_edge(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def test_a_bar_says_what_it_is_when_it_is_touched(page):
    page.wait_for_timeout(200)
    box = page.locator("#rows").bounding_box()
    page.mouse.move(box["x"] + box["width"] * (1 - 12 / 60), box["y"] + 20 + 39)  # 12 s ago: it executed
    page.wait_for_selector("#tip:not([hidden])")
    assert "execution, 10.00 s" in page.text_content("#tip")


def test_news_arrive_and_a_silent_planner_is_seen(page, shown):
    board, hub, _ = shown
    with board.changing() as (state, now_s):
        state.planner_received_s = now_s - 5.0
    hub.publish(*board.news())
    page.wait_for_selector("#state.bad")
    assert page.text_content("#state") == "planner silent for 5 s"
    assert "the planner has been silent for 5 s" in page.text_content("#alerts")


def test_figures_of_an_engine_that_does_not_answer_are_not_those_of_before(page, shown):
    board, hub, _ = shown
    with board.changing() as (state, now_s):
        state.receive_planner(make_view(loop=None, age_s=None), now_s)
    hub.publish(*board.news())
    page.wait_for_selector("#slots-text:text-is('\u2013')")
    for name in ("kv", "tokens", "busy"):
        assert page.text_content(f"#{name}-text") == "\u2013"
        assert page.text_content(f"#{name}-more") == ""


def act(board, *lines):
    """Lets things happen to the goal of a robot with a plain name."""
    with board.changing() as (state, now_s):
        goal = make_goal("drone_1", request_id="g2", num_segments=2, num_executed=0, robot_busy_s=3.9, state="planned")
        view = make_view(goal)
        state.receive_planner(replace(view, loop=replace(view.loop, at_s=now_s), age_s=0.0), now_s)
        for line in lines:
            state.receive_event({**line, "request_id": "g2", "time_s": now_s + line["time_s"]}, now_s)


MOVING = ({**accepted(-23.0), "instruction": "fly to the sofa"}, segment(-22.5), report(-22.0, "started"))


def test_instruction_answer_and_progress_are_said_in_plain_words(page, shown):
    board, hub, _ = shown
    act(board, *MOVING, {**report(-0.5, "succeeded", duration_s=1.5), "said": ["I see a sofa"]})
    hub.publish(*board.news())
    page.wait_for_selector("#queue td:has-text('fly to the sofa')")
    cells = page.locator("#queue tbody tr").first.locator("td").all_text_contents()
    assert cells[:3] == ["drone_1", "fly to the sofa", "I see a sofa"]
    assert cells[8] == "segment 1 of 2, 3.9 s left"
    page.wait_for_selector("#rows[aria-label*='fly to the sofa']")
    assert "answer: I see a sofa" in page.get_attribute("#rows", "aria-label")


def test_a_planner_that_died_shows_so_everywhere(page, shown):
    board, hub, _ = shown
    act(board, *MOVING)
    hub.publish(*board.news())
    page.wait_for_selector("#queue td:has-text('segment 1 of 2')")
    with board.changing() as (state, now_s):
        state.planner_received_s = now_s - 12.0
    hub.publish(*board.news())
    page.wait_for_selector("#state.bad")
    assert "unknown: planner silent for 12 s" in page.text_content("#queue")
    assert "segment 1 of 2" not in page.text_content("#queue")
    assert page.text_content("#goals-text") == "?"
    assert page.locator("#summary.stale").count() == 1
    page.wait_for_selector("#rows[aria-label*='planner silent for 12 s']")
    page.locator("#rows").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
        if "execution" in page.text_content("#tip"):
            break
    assert "then unknown: planner silent for 12 s" in page.text_content("#tip")
    assert "so far" not in page.text_content("#tip")


def test_what_is_empty_says_the_next_step(browser, shown):
    page = browser.new_page()
    page.goto(shown[2])
    page.wait_for_selector("#queue-more:not(:empty)")
    assert page.text_content("#rows-empty") == "No robots yet. Start some: llm-planner up"
    assert page.text_content("#map-empty") == "No robots yet. Start some: llm-planner up"
    assert page.text_content("#queue-more") == "No planner yet. Start one: llm-planner up"
    with shown[0].changing() as (state, now_s):
        state.receive_planner(make_view(), now_s)
        state.receive_robot(make_robot("drone_1"), now_s)
    shown[1].publish(*shown[0].news())
    page.wait_for_selector("#queue-more:has-text('llm-planner send drone_1')")
    page.close()


def test_bars_are_told_by_keyboard_too(page):
    page.locator("#rows").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#tip:not([hidden])")
    page.keyboard.press("Escape")
    page.wait_for_selector("#tip", state="hidden")


@given(
    st.lists(st.tuples(st.floats(0, 400), st.floats(0, 300), st.floats(5, 120)), max_size=30),
    st.lists(st.tuples(st.floats(0, 400), st.floats(0, 300)), max_size=5),
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_label_of_a_map_lies_on_another(labels_page, labels, robots):
    labels = [
        {"text": "x", "x": x, "y": y, "width": width, "below": 11, "above": 5, "may_stand_next_to": True}
        for x, y, width in labels
    ]
    taken = [{"left": x - 9, "right": x + 9, "top": y - 11, "bottom": y + 9} for x, y in robots]
    placed = labels_page.evaluate(
        """async ([labels, taken]) => (await import("/static/labels.js")).place(labels, 400, 300, taken)""",
        [labels, taken],
    )
    boxes = [
        (label["left"], label["left"] + label["width"], label["baseline"] - 10, label["baseline"]) for label in placed
    ]
    others = [(box["left"], box["right"], box["top"], box["bottom"]) for box in taken]
    for number, (left, right, top, bottom) in enumerate(boxes):
        for other in [*boxes[:number], *others]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top
    fits = [
        label for label in labels if not taken and len(labels) == 1 and 60 < label["x"] < 340 and 20 < label["y"] < 280
    ]
    assert len(placed) >= len(fits)


@pytest.fixture
def labels_page(browser, shown):
    page = browser.new_page()
    page.goto(shown[2])
    yield page
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", ["empty", "at work", "planner silent", "bar told"])
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing(browser, shown, scheme, state, size):
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe is missing: requirements/browser.txt"
    )
    board, hub, url = shown
    page = browser.new_page(viewport=size, color_scheme=scheme)
    page.goto(f"{url}#token=none")  # the buttons that stop robots are shown too
    page.wait_for_selector("#queue-more:not(:empty)")
    if state != "empty":
        fill(board, "drone_1")
        act(board, *MOVING)
        hub.publish(*board.news())
        page.wait_for_selector("#stops button:has-text('Stop drone_1')")
    if state == "planner silent":
        with board.changing() as (changed, now_s):
            changed.planner_received_s = now_s - 12.0
        hub.publish(*board.news())
        page.wait_for_selector("#state.bad")
    if state == "bar told":
        page.wait_for_selector("#rows[aria-label*='fly to the sofa']")  # bars are drawn
        page.locator("#rows").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector("#tip:not([hidden])")
    found = axe.Axe().run(page).response["violations"]
    page.close()
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found] == []


def test_robots_whose_home_is_known_share_a_map(page, shown):
    board, hub, _ = shown
    with board.changing() as (state, now_s):
        for number in (1, 2):
            home = Pose(x_m=2.0 * number, yaw_deg=90.0 * number)
            things = (make_thing("sofa", x_m=3.0),)
            state.receive_robot(make_robot(f"drone_{number}", home=home, things=things), now_s)
    hub.publish(*board.news())
    page.wait_for_selector(".fleet canvas")
    page.wait_for_timeout(300)
    assert painted(page, ".fleet canvas") > 500
    assert page.locator(".tile").count() == 2  # the map, and the tile of the robot whose home is unknown
