"""How figures look, in light and in dark, and how a chart becomes SVG or PNG (vl-convert, no browser, no network)."""

import base64
import json
import re
import struct
import zlib
from typing import Any, Final, Literal, NamedTuple

Mode = Literal["light", "dark"]

FONT: Final = "Inter, 'Helvetica Neue', Arial, sans-serif"
WIDTH: Final = 560
"""Drawing width in pixels: legible when a phone shrinks the figure to its own width."""
PADDING: Final = {"left": 22, "top": 5, "right": 26, "bottom": 5}
"""Room for words whose font on the reader's machine is wider than the one that the renderer measured."""
PANEL_NAME: Final = 175
"""Pixels of a line of a panel's name; a longer one would run into that of its neighbour."""
PNG_SCALE: Final = 2
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CLIP: Final = re.compile(r"\bclip[0-9]+\b")


class Palette(NamedTuple):
    """Colours of one mode; the series differ in lightness as well as in hue, for readers who see few hues."""

    ink: str
    muted: str
    grid: str
    paper: str
    good: str
    bad: str
    series: dict[str, str]
    others: tuple[str, ...]


PALETTES: Final[dict[Mode, Palette]] = {
    "light": Palette(
        ink="#1c2430",
        muted="#5b6675",
        grid="#e3e7ec",
        paper="#ffffff",
        good="#1a6fb5",
        bad="#c2410c",
        series={
            "zero_shot": "#8796a8",
            "retrieval": "#1a5fb4",
            "belief": "#7b3fa0",
            "market_price": "#c77700",
            "constant_half": "#b6bec8",
            "base_rate": "#7a8f6b",
        },
        others=("#0f766e", "#be185d", "#4d7c0f", "#92400e"),
    ),
    "dark": Palette(
        ink="#e8edf3",
        muted="#9aa6b5",
        grid="#2b3542",
        paper="#141a22",
        good="#6cb2f5",
        bad="#fb8b55",
        series={
            "zero_shot": "#8594a6",
            "retrieval": "#6cb2f5",
            "belief": "#c89bea",
            "market_price": "#f0b050",
            "constant_half": "#566170",
            "base_rate": "#a3b992",
        },
        others=("#4fd1c5", "#f48fb5", "#a8d06a", "#e0a46c"),
    ),
}
ARM_NAMES: Final = {
    "zero_shot": "Zero-shot",
    "retrieval": "Retrieval",
    "belief": "Belief (BLF)",
    "market_price": "Market price at t0",
    "constant_half": "Always one half",
    "base_rate": "Base rate",
    "reference_class": "Reference class",
    "evidence_count": "Evidence count",
}


def arm_name(arm: str) -> str:
    """Return an arm as a person reads it."""
    return ARM_NAMES.get(arm, arm.replace("_", " ").capitalize())


def colours(arms: list[str], mode: Mode) -> dict[str, str]:
    """Return one colour per arm; unknown arms take the spare ones in order."""
    palette = PALETTES[mode]
    unknown = [arm for arm in arms if arm not in palette.series]
    spare = {arm: palette.others[k % len(palette.others)] for k, arm in enumerate(unknown)}
    return {arm: palette.series.get(arm, spare.get(arm, palette.muted)) for arm in arms}


def config(mode: Mode) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a mode."""
    palette = PALETTES[mode]
    text = {"labelColor": palette.muted, "titleColor": palette.ink, "labelFont": FONT, "titleFont": FONT}
    return {
        "background": "transparent",
        "font": FONT,
        "padding": PADDING,
        "view": {"stroke": None},
        "axis": text
        | {
            "gridColor": palette.grid,
            "domainColor": palette.grid,
            "tickColor": palette.grid,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelLimit": 190,
            "labelFlush": False,
            "tickCount": 6,
        },
        "legend": text
        | {
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "labelColor": palette.ink,
            "labelLimit": 220,
            "columnPadding": 26,
            "symbolSize": 90,
        },
        "header": text
        | {"labelFontSize": 12, "labelColor": palette.ink, "titleFontSize": 12, "labelLimit": PANEL_NAME},
        "text": {"color": palette.ink, "font": FONT, "fontSize": 12},
        "rule": {"color": palette.muted},
    }


def svg(spec: dict[str, Any]) -> str:
    """Render a Vega-Lite specification to SVG, the same text for the same specification.

    Vega numbers clip paths through the whole life of a process; here they are numbered within their own picture.
    """
    import vl_convert

    rendered: str = vl_convert.vegalite_to_svg(json.dumps(spec))
    numbers: dict[str, int] = {}
    return _CLIP.sub(lambda found: f"clip{numbers.setdefault(found[0], len(numbers))}", rendered)


def png(spec: dict[str, Any], *, scale: float = PNG_SCALE) -> bytes:
    """Render a Vega-Lite specification to PNG on its own background."""
    import vl_convert

    opaque = spec | {"config": spec.get("config", {}) | {"background": PALETTES["light"].paper}}
    rendered: bytes = vl_convert.vegalite_to_png(json.dumps(opaque), scale=scale)
    return _packed(rendered)


def _packed(image: bytes) -> bytes:
    """Return the same PNG with its pixels deflated at the highest level: a third of what the renderer writes."""
    kept, pixels, place = [], b"", len(_SIGNATURE)
    while place < len(image):
        size, kind = struct.unpack(">I4s", image[place : place + 8])
        body = image[place + 8 : place + 8 + size]
        place += 12 + size
        if kind == b"IDAT":
            pixels += body
        elif kind != b"IEND":
            kept.append((kind, body))
    chunks = [*kept, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def data_uri(text: str) -> str:
    """Return an SVG as a data URI: shown as an image, it can run nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
