"""A real browser without a window: Debian's Chromium, driven by its chromedriver."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.common.exceptions import JavascriptException, StaleElementReferenceException  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
CHROMEDRIVER = shutil.which("chromedriver")

AXE = Path(os.environ.get("AXE_CORE") or Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js")


class Browser:
    """What the tests and screenshots do with it."""

    patience = 15.0
    """Seconds to wait for what should come."""

    def __init__(self, width: int = 1440, height: int = 900) -> None:
        if CHROMIUM is None or CHROMEDRIVER is None:
            pytest.skip("no Chromium or no chromedriver here")
        options = webdriver.ChromeOptions()
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                         "--force-color-profile=srgb", "--hide-scrollbars"):  # fmt: skip
            options.add_argument(argument)
        options.binary_location = CHROMIUM
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
        self.resize(width, height)

    @contextmanager
    def patient(self, seconds: float) -> Iterator[None]:
        """Wait longer inside the block."""
        before, self.patience = self.patience, max(self.patience, seconds)
        try:
            yield
        finally:
            self.patience = before

    def resize(self, width: int, height: int, zoom: float = 1.0) -> None:
        """The window; a zoom of 2 leaves half as many CSS pixels each way, as the browser's own zoom does."""
        size = {
            "width": round(width / zoom),
            "height": round(height / zoom),
            "deviceScaleFactor": zoom,
            "mobile": False,
        }
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def open(self, url: str) -> None:
        self.driver.get(url)

    def run(self, script: str, *values: Any) -> Any:
        return self.driver.execute_script(script, *values)

    def press(self, *keys: str, shift: bool = False) -> None:
        """Keys, one after the other, wherever the focus is."""
        actions = ActionChains(self.driver, duration=0)
        for key in keys:
            if shift:
                actions.key_down(Keys.SHIFT)
            actions.send_keys(key)
            if shift:
                actions.key_up(Keys.SHIFT)
        actions.perform()

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)", selector)

    def wait(self, is_so: Callable[[], Any], what: str = "") -> Any:
        """Until it is so; fails after a while."""
        end = time.monotonic() + self.patience
        while time.monotonic() < end:
            try:
                if found := is_so():
                    return found
            except (StaleElementReferenceException, JavascriptException):
                pass
            time.sleep(0.03)
        pytest.fail(f"waited in vain for {what or is_so}; the page says {self.text('#message')!r}")

    def sees(self, selector: str, text: str) -> None:
        self.wait(lambda: text in self.text(selector), f"{text!r} in {selector}, which is {self.text(selector)!r}")

    def complaints(self) -> list[str]:
        """What the console shows of errors and refused content, since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def axe(self) -> list[str]:
        """Serious accessibility violations of what is shown."""
        if not AXE.is_file():
            pytest.skip("axe-core is not installed: npm install --prefix tests/review, or set AXE_CORE=.../axe.min.js")
        if not self.run("return Boolean(window.axe)"):
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
        found = self.driver.execute_async_script(
            "const done = arguments[0];"
            "axe.run().then((r) => done(r.violations), (e) => done([{impact: 'serious', id: String(e), nodes: []}]))"
        )
        return [
            f"{one['id']}: {one['nodes'][:3] and [node['html'][:160] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in ("serious", "critical")
        ]

    def quit(self) -> None:
        self.driver.quit()
