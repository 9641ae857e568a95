"""What the explorer's tests with and without a browser share."""
import pytest

from helpers import explore, explorer


@pytest.fixture
def explored(monkeypatch):
    """Call explore and get what it would display: the picture, its metadata, and the live page's HTML."""
    def of(*given, **named):
        shown = []
        monkeypatch.setattr(explorer, "present", lambda *parts: shown.extend(parts))
        explore(*given, **named)
        picture, metadata, live = shown
        return picture, metadata, live["text/html"]
    return of
