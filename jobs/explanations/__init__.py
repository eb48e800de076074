"""What each error means and what to do about it: for `kseg explain`, and for the site's index of errors."""

from __future__ import annotations
