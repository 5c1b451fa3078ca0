"""Every colour, font and size of the page, in light and in dark, for the style sheet and the figures alike."""

from __future__ import annotations

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Noto Sans Mono', 'Noto Sans Mono CJK SC', monospace"

# Names follow use, not hue. Each pair of text and ground keeps a contrast of at least 4.5.
LIGHT = {
    "ground": "#ffffff",
    "panel": "#f6f7fb",
    "line": "#d5d9e5",
    "text": "#1b2033",
    "muted": "#555d75",
    "accent": "#4338ca",
    "accent-soft": "#e4e4fb",
    "on-accent": "#ffffff",
    "good": "#0f7038",
    "bad": "#b42318",
    "encoder-self": "#0f766e",
    "decoder-self": "#a3480b",
    "cross": "#4338ca",
    "hidden": "#e7e9f0",  # a cell that a mask hides
}
DARK = {
    "ground": "#0f1221",
    "panel": "#181c2f",
    "line": "#363d57",
    "text": "#eceef8",
    "muted": "#aab1c9",
    "accent": "#a5a8ff",
    "accent-soft": "#2a2b5c",
    "on-accent": "#10122b",
    "good": "#5dd694",
    "bad": "#ff9a8f",
    "encoder-self": "#5ed3c7",
    "decoder-self": "#f3a765",
    "cross": "#a5a8ff",
    "hidden": "#262b40",
}

# Weights run from "nothing" (close to the ground) to "everything"; scores run to both sides of 0.
SEQUENTIAL = {
    "light": ["#f3f4fd", "#c9cbf7", "#8f90ec", "#5549d6", "#231a78"],
    "dark": ["#171b30", "#2f3073", "#5a56c9", "#9a9cff", "#f1f1ff"],
}
DIVERGING = {
    "light": ["#9a3d06", "#eda45f", "#f7f7fa", "#8d92ee", "#352ba3"],
    "dark": ["#ffb877", "#a2561b", "#1a1e30", "#5a56c9", "#b9bbff"],
}


def css_variables() -> str:
    """The palette as custom properties: ``--gf-text`` and so on, re-set inside ``.dark``."""

    def block(selector: str, palette: dict[str, str], mode: str) -> str:
        values = {
            **palette,
            **{f"sequential-{i}": colour for i, colour in enumerate(SEQUENTIAL[mode])},
            **{f"diverging-{i}": colour for i, colour in enumerate(DIVERGING[mode])},
        }
        return selector + " {" + " ".join(f"--gf-{name}: {value};" for name, value in values.items()) + "}"

    fonts = f":root {{--gf-font: {FONT}; --gf-mono: {MONO};}}"
    return "\n".join((fonts, block(":root", LIGHT, "light"), block(".dark", DARK, "dark")))


def plotly_template(mode: str) -> dict:
    """A Plotly template for ``light`` or ``dark``: transparent ground, our text, lines and colour scales."""
    palette = LIGHT if mode == "light" else DARK
    axis = {
        "gridcolor": palette["line"],
        "linecolor": palette["line"],
        "zerolinecolor": palette["line"],
        "tickcolor": palette["line"],
        "automargin": True,
        "title": {"standoff": 8},
    }

    def scale(colours: list[str]) -> list[list]:
        return [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]

    sequential, diverging = scale(SEQUENTIAL[mode]), scale(DIVERGING[mode])
    return {
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 14, "color": palette["text"]},
            "colorway": [palette[name] for name in ("accent", "decoder-self", "encoder-self", "bad", "good", "muted")],
            "colorscale": {"sequential": sequential, "sequentialminus": sequential[::-1], "diverging": diverging},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {
                "bgcolor": palette["panel"],
                "bordercolor": palette["line"],
                "font": {"family": MONO, "color": palette["text"]},
            },
            "legend": {"orientation": "h", "y": 1.08, "x": 0},
            "margin": {"l": 56, "r": 24, "t": 24, "b": 48},
        }
    }
