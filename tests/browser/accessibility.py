"""What axe-core finds on a page that keeps people out: its findings of serious and critical impact."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# Rule -> why its findings are not counted. Nothing is left out.
LEFT_OUT: dict[str, str] = {}


def serious_findings(page: Page, within: str | None = None, contrast: bool = True) -> list[str]:
    """One readable text a finding: impact, rule, selector, HTML and what axe says of it. Empty when all is well.

    ``within`` limits the look to what matches a selector. ``contrast=False`` leaves out the slowest rule, four fifths
    of the time, for a view whose colours were looked at elsewhere.
    """
    rules = {rule: {"enabled": False} for rule in LEFT_OUT}
    options = {"resultTypes": ["violations"], "rules": {**rules, "color-contrast": {"enabled": contrast}}}
    response = Axe().run(page, context=within, options=options).response
    return [
        f"{violation['impact']} {violation['id']}: {violation['help']}\n"
        f"  at   {' >> '.join(map(str, node['target']))}\n"
        f"  html {node['html'][:300]}\n"
        f"  why  {' '.join(node['failureSummary'].split())}"
        for violation in response["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


def assert_accessible(page: Page, within: str | None = None) -> None:
    """Fail with every serious finding spelled out."""
    findings = serious_findings(page, within)
    assert not findings, f"{len(findings)} serious accessibility findings:\n" + "\n".join(findings)
