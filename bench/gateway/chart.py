"""Draws CPU µs a request by gateway, on a logarithmic axis."""

from pathlib import Path

from bench.gateway.plan import SMALL, Results

_LABELS = {
    "nginx": "nginx (relays only)",
    "python-floor": "uvloop + httptools (relays only)",
    "ours-off": "Headrace, recording off",
    "ours-on": "Headrace, recording on",
    "sglang-router": "sglang-router",
    "fastapi-httpx": "FastAPI + httpx (relays only)",
    "litellm": "LiteLLM proxy",
}
_OURS, _OTHERS = "#1f6feb", "#9aa4b2"


def draw(results: Results, path: Path) -> None:
    """Write a PNG: one bar for each gateway that ran, best round, small prompts, 16 connections."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bars = [(label, name, sample.cpu_us) for name, label in _LABELS.items() if (sample := results.best(SMALL, name))]
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(bars) + 1.2), layout="constrained")
    colours = [_OURS if name.startswith("ours") else _OTHERS for _, name, _ in bars]
    drawn = axes.barh([label for label, _, _ in bars], [us for _, _, us in bars], color=colours)
    axes.bar_label(drawn, labels=[f"{us:,.0f} µs" for _, _, us in bars], padding=4)
    axes.set_xscale("log")
    axes.set_xlim(left=10, right=2.5 * max(us for _, _, us in bars))
    axes.invert_yaxis()
    axes.set_xlabel("CPU µs a request (1 KB prompt, 16 connections, not streamed; log scale)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
