"""The reward curve: mean reward by the policy version that sampled, both arms, and held-out success before and after."""

from pathlib import Path

from atdp.versions import version_index
from deploy.demo.intervals import wilson
from deploy.demo.plan import ArmResult

_COLOURS = {"online": "#1f6f8b", "control": "#b0a090"}


def draw(results: list[ArmResult], path: Path) -> Path:
    """Write a PNG to ``path``: left the curve, right the exams with their 95 % intervals."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (curve, exams) = pyplot.subplots(1, 2, figsize=(11, 4.2), width_ratios=(3, 1.4))
    for position, result in enumerate(results):
        colour = _COLOURS[result.arm]
        points = sorted((version_index(version), mean, num) for version, (mean, num) in result.rewards.items() if num)
        curve.plot([x for x, _, _ in points], [y for _, y, _ in points], linewidth=1.2, color=colour, label=result.arm)
        curve.scatter([x for x, _, _ in points], [y for _, y, _ in points], [6 + num for _, _, num in points], color=colour)
        for exam, offset, shade in ((result.before, -0.18, 0.45), (result.after, 0.18, 1.0)):
            if exam is not None:
                low, high = wilson(exam.num_successes, exam.n)
                error = [[max(0.0, exam.share - low)], [max(0.0, high - exam.share)]]
                exams.bar(position + offset, exam.share, 0.32, yerr=error, color=colour, alpha=shade, capsize=4)
    curve.set(xlabel="policy version", ylabel="mean reward", title="Reward by the version that answered (dots: how many answers)")
    curve.grid(alpha=0.3)
    curve.legend(frameon=False)
    exams.set(ylabel="share", ylim=(0, 1), title="Held-out success, before and after")
    exams.set_xticks(range(len(results)), [result.arm for result in results])
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    pyplot.close(figure)
    return path
