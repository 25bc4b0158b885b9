"""The report of a finished run: one HTML file that opens anywhere, with everything it shows inside."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from training.maze import Cell, Maze, maze_for
from training.results import Evaluation, GradedEpisode, Progress, Results

GALLERY_MAZES = 12
TEMPLATE = "report.html.j2"
CURVE_WIDTH, CURVE_HEIGHT, MARGIN = 760, 260, 40

type Point = tuple[float, float]


def render_report(results: Results) -> str:
    """The report as HTML."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.globals["percent"] = lambda share: f"{share:.1%}"
    return environment.get_template(TEMPLATE).render(
        results=results,
        config=results.config,
        progress=results.progress,
        before=results.before,
        after=results.after,
        curve=curve_svg(results.progress),
        gallery=[
            [(episode, maze_svg(_maze(results.after, episode), episode.path)) for episode in pair]
            for pair in telling_pairs(results.before, results.after)[:GALLERY_MAZES]
        ],
    )


def telling_pairs(before: Evaluation, after: Evaluation) -> list[tuple[GradedEpisode, GradedEpisode]]:
    """Each maze before and after: what training broke, what it gained, what still fails, the rest."""
    pairs = list(zip(before.episodes, after.episodes, strict=True))
    order = {(True, False): 0, (False, True): 1, (False, False): 2, (True, True): 3}
    return sorted(pairs, key=lambda pair: order[pair[0].solved, pair[1].solved])


def maze_svg(maze: Maze, path: Sequence[Cell]) -> Markup:
    """A maze with the way the agent took, as inline SVG in units of a cell."""
    walls = "".join(
        f"M{column} {row}h1v1h-1z"
        for row in range(maze.size)
        for column in range(maze.size)
        if maze.is_wall((row, column))
    )
    row, column = maze.target
    way = _points((column + 0.5, row + 0.5) for row, column in path)
    return Markup(
        '<svg viewBox="0 0 {size} {size}" role="img" aria-label="maze of seed {seed}">'
        '<path d="{walls}" fill="#a9a9a9"/><rect x="{column}" y="{row}" width="1" height="1" fill="#f00"/>'
        '<circle cx="{x}" cy="{y}" r=".3" fill="#00f"/>'
        '<polyline points="{way}" fill="none" stroke="#0a7d32" stroke-width=".18"/></svg>'
    ).format(
        size=maze.size,
        seed=maze.seed,
        walls=walls,
        row=row,
        column=column,
        x=maze.start[1] + 0.5,
        y=maze.start[0] + 0.5,
        way=way,
    )


def curve_svg(progress: Progress) -> Markup:
    """Solved share over training steps: fixed mazes with their intervals, training mazes behind them."""
    last = max(evaluation.step for evaluation in progress.evaluations) or 1

    def at(step: float, share: float) -> Point:
        return (
            MARGIN + step / last * (CURVE_WIDTH - 2 * MARGIN),
            CURVE_HEIGHT - MARGIN - share * (CURVE_HEIGHT - 2 * MARGIN),
        )

    grid = [
        _line(at(0, share), at(last, share), "#e3e7ed", f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)
    ]
    steps = [_tick(at(evaluation.step, 0), str(evaluation.step)) for evaluation in progress.evaluations]
    bars = [
        _line(at(e.step, e.interval_95.low), at(e.step, e.interval_95.high), "#1d4ed8")
        for e in progress.evaluations
    ]
    training = _polyline((at(s.step, s.solved_share) for s in progress.steps), "#9aa4b2", 1.5)
    fixed = _polyline((at(e.step, e.solved_share) for e in progress.evaluations), "#1d4ed8", 3)
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="solved share by step">{}</svg>').format(
        CURVE_WIDTH, CURVE_HEIGHT, Markup("").join([*grid, *steps, training, *bars, fixed])
    )


def _maze(evaluation: Evaluation, episode: GradedEpisode) -> Maze:
    return maze_for(size=evaluation.size, seed=episode.seed)


def _line(start: Point, end: Point, colour: str, label: str = "") -> Markup:
    return Markup(
        '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="1.5"/>'
        '<text x="4" y="{:.1f}" font-size="12" fill="#5d6878">{}</text>'
    ).format(*start, *end, colour, start[1] + 4, label)


def _tick(place: Point, label: str) -> Markup:
    return Markup(
        '<text x="{:.1f}" y="{:.1f}" font-size="12" fill="#5d6878" text-anchor="middle">{}</text>'
    ).format(place[0], place[1] + 18, label)


def _polyline(points: Iterable[Point], colour: str, width: float) -> Markup:
    return Markup('<polyline points="{}" fill="none" stroke="{}" stroke-width="{}"/>').format(
        _points(points), colour, width
    )


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
