"""A headless Chromium with an empty profile, where the system has one."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
    # A new process for each page, and one kept ready for the next, took a quarter of the time.
    "--renderer-process-limit=1", "--disable-site-isolation-trials",
    "--disable-features=SpareRendererForSitePerProcess",
)  # fmt: skip
MISSING = "no chromium with its driver here: apt-get install chromium chromium-driver"


class Browser:
    """A page and what it logged."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def size(self, width: int, height: int, theme: str = "light", forced: bool = False) -> None:
        """Set the viewport, the preferred theme, and whether the system forces its colors."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {
                "features": [
                    {"name": "prefers-color-scheme", "value": theme},
                    {"name": "forced-colors", "value": "active" if forced else "none"},
                ]
            },
        )

    def open(self, url: str) -> None:
        """Load a page anew, though only its fragment differs."""
        self.driver.get("about:blank")
        self.driver.get(url)
        self.settle()

    def settle(self) -> None:
        """Wait until the view is drawn."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, 30).until(
            lambda driver: driver.execute_script(
                "const s = document.getElementById('status');"
                "return document.readyState === 'complete' && s && s.textContent !== '' &&"
                " s.textContent !== 'Working…' &&"
                " !document.getElementById('view').hasAttribute('aria-busy')"
            )
        )

    def script(self, source: str, *arguments: Any) -> Any:
        """Run JavaScript."""
        return self.driver.execute_script(source, *arguments)

    def all(self, selector: str) -> list[Any]:
        """Return the elements that a CSS selector selects."""
        elements: list[Any] = self.driver.find_elements("css selector", selector)
        return elements

    def one(self, selector: str) -> Any:
        """Return the first element that a CSS selector selects."""
        return self.driver.find_element("css selector", selector)

    def console(self) -> list[str]:
        """Return what the console holds since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def hosts(self) -> set[str]:
        """Return the schemes and hosts of all requests since the last call.

        The browser's own first page, chrome:// and what it loads from chrome-untrusted://, is none
        of the page's.
        """
        hosts = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url.startswith(("chrome:", "chrome-")):
                    continue
                hosts.add("/".join(url.split("/")[:3]) if url.startswith("http") else url[:5])
        return hosts

    def picture(self, file: str) -> None:
        """Write a screenshot of the whole page."""
        import base64
        from pathlib import Path

        made = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "format": "png"}
        )
        Path(file).write_bytes(base64.b64decode(made["data"]))


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start Chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options, Service(str(DRIVER)))
        driver.set_page_load_timeout(60)
        # Without it, nothing gets the focus before the first click.
        driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
        try:
            yield Browser(driver)
        finally:
            driver.quit()
