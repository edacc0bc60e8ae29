"""The page in a real browser, headless: what a person sees on a desk and on a phone; hostile names stay text."""

import shutil
from dataclasses import replace

import pytest

from llm_planner.core.clock import MonotonicClock
from llm_planner.core.pose import Pose
from llm_planner.monitoring.board import Board
from llm_planner.monitoring.hub import Hub
from llm_planner.monitoring.web import WebServer, build_app
from llm_planner.serving.meter import Totals
from tests.cli.test_top_screen import make_goal, make_view
from tests.monitoring.test_lanes import accepted, finished, report, segment
from tests.monitoring.test_robot_view import make_thing
from tests.monitoring.test_robot_view import make_view as make_robot

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
            state.hear_planner(replace(view, loop=replace(view.loop, at_s=at_s, totals=totals), age_s=0.0), now_s)
        for line in (
            accepted(now_s - 20.0, robot_id=robot_id),
            segment(now_s - 19.0, text=HOSTILE),
            report(now_s - 18.0, "started"),
            report(now_s - 8.0, "succeeded", duration_s=2.5),
            {**finished(now_s - 7.0, error_code=300), "error_msg": HOSTILE},
        ):
            state.hear_event(line, now_s)
        state.hear_robot(make_robot(robot_id, things=(make_thing(HOSTILE),), held=HOSTILE), now_s)
        state.hear_diagnostic(HOSTILE, 2, HOSTILE, now_s)


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


def test_numbers_queue_lanes_map_and_prediction_are_shown(page):
    assert page.text_content("#state") == "active"
    assert page.text_content("#slots-text") == "4 of 8"
    assert page.text_content("#kv-text") == "40 %"
    assert page.text_content("#tokens-text") == "100 /s"
    assert "1 segments: median error 25.0 %" in page.text_content("#measured-text")
    page.wait_for_timeout(300)
    for canvas in ("#lanes", ".tile canvas", "#measured"):
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
    box = page.locator("#lanes").bounding_box()
    page.mouse.move(box["x"] + box["width"] * (1 - 12 / 60), box["y"] + 20 + 24)  # 12 s ago: it executed
    page.wait_for_selector("#tip:not([hidden])")
    assert "execution, 10.00 s" in page.text_content("#tip")


def test_news_arrive_and_a_silent_planner_is_seen(page, shown):
    board, hub, _ = shown
    with board.changing() as (state, now_s):
        state.planner_heard_s = now_s - 5.0
    hub.publish(*board.news())
    page.wait_for_selector("#state.bad")
    assert page.text_content("#state") == "silent"
    assert "the planner says nothing for 5 s" in page.text_content("#alerts")


def test_robots_whose_home_is_known_share_a_map(page, shown):
    board, hub, _ = shown
    with board.changing() as (state, now_s):
        for number in (1, 2):
            home = Pose(x_m=2.0 * number, yaw_deg=90.0 * number)
            things = (make_thing("sofa", x_m=3.0),)
            state.hear_robot(make_robot(f"drone_{number}", home=home, things=things), now_s)
    hub.publish(*board.news())
    page.wait_for_selector(".fleet canvas")
    page.wait_for_timeout(300)
    assert painted(page, ".fleet canvas") > 500
    assert page.locator(".tile").count() == 2  # the map, and the tile of the robot whose home nobody knows
