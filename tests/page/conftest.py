"""The browser that these tests look with."""

from tests.support.browser import browser

__all__ = ["browser"]
