"""What a trained link model answers: scores, reasons for one pair, and the best new partners."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastgtn.cli.output import emit_json, emit_table, noted, say
from fastgtn.errors import InputError

MOST_SOURCES = 20  # whose recommendations a page shows

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

    from fastgtn.links.edges import Array
    from fastgtn.links.fit import LinkResult
    from fastgtn.links.joined.explain import LinkReasons
    from fastgtn.links.learned.result import LearnedLinks
    from fastgtn.links.recommend import Recommendations
    from fastgtn.links.task import Stage
    from fastgtn.relations import Relation


def explain_link_run(
    run: Path,
    *,
    pair: tuple[str, str] | None,
    top: int,
    seed: int | None,
    graph: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """The joined meta-paths of a run, or the reasons for one pair."""
    from fastgtn.cli.links.train import path_table
    from fastgtn.links.folder import load_links

    result = load_links(run, seed=seed, graph=graph, data_dir=data_dir, hides=pair is None)
    if pair is not None:
        _explain_pair(result, pair, top=top, as_json=as_json)
        return
    facts = result.facts()
    if as_json:
        emit_json({"run": str(run), **facts})
        return
    say("learned", facts["learned"]["verdict"])
    if not result.sums_paths:
        say(
            "paths", 'none: only FastGTN and GTN with model.decoder = "dot" or "distmult" score by sums over meta-paths'
        )
    elif facts["paths"]:
        emit_table(path_table(facts["paths"][:top], of_encoders="epoch" in facts))


def evaluate_link_run(
    run: Path,
    *,
    split: str,
    at: int | None,
    seed: int | None,
    graph: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Score the validation or the test pairs of a run again, with lists of recommendations of some length."""
    from fastgtn.data.metrics import title_of
    from fastgtn.links.fit import score_stage
    from fastgtn.links.folder import load_links
    from fastgtn.links.metrics import AT

    if split not in ("val", "test"):
        raise InputError(f'a link model is scored on "val" or "test", but got "{split}".')
    stage: Stage = "val" if split == "val" else "test"
    result = load_links(run, seed=seed, graph=graph, data_dir=data_dir)
    scores = score_stage(result, stage, at=AT if at is None else at)
    if as_json:
        emit_json({"run": str(run), "split": split, **scores})
    else:
        say(split, " · ".join(f"{title_of(name)} {100 * value:.2f}" for name, value in scores.items()))


def write_recommendations(
    run: Path,
    out: Path,
    *,
    nodes: Path | None,
    top: int,
    seed: int | None,
    graph: str | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    """Write the best new partners of every source, or of those in a file, known links left out."""
    import pyarrow as pa

    from fastgtn.links.folder import load_links
    from fastgtn.runs.predictions import write_table

    with noted():
        result = load_links(run, seed=seed, graph=graph, data_dir=data_dir, hides=False)
    relation, whole = result.task.relation, result.task.graph_at("use")
    top = min(top, result.task.num_targets)
    found = result.recommend(_sources(nodes, whole, relation.source), top=top)
    table = pa.table(_columns(found, whole, relation))
    write_table(table, out)
    if as_json:
        emit_json({"run": str(run), "rows": table.num_rows, "columns": table.column_names, "out": str(out)})
    else:
        count = f"{len(found.sources):,} {relation.source} nodes"
        say("saved", f"{out} · the {top} best new {relation.target} nodes of {count}")


def _sources(file: Path | None, graph: HeteroData, kind: str) -> Array | None:
    """The numbers of the sources in a file of ids; None for all of them."""
    from fastgtn.runs.scoring.node_file import read_node_file
    from fastgtn.runs.scoring.node_names import NodeNames

    if file is None:
        return None
    names = NodeNames(graph, kind)
    numbers: Array = names.numbers(read_node_file(file, names)).numpy()
    return numbers


def _columns(found: Recommendations, graph: HeteroData, relation: Relation) -> dict[str, Array]:
    """One row for each source and partner: their ids, rank, log-odds, and the partner's name if it has one."""
    import numpy as np

    from fastgtn.links.folder import names_of, texts_of

    sources, targets = (np.array(names_of(graph, t)) for t in (relation.source, relation.target))
    kept = found.targets >= 0
    row, place = np.nonzero(kept)
    other = relation.target if relation.target != relation.source else f"other {relation.target}"
    columns = {
        relation.source: sources[found.sources[row]],
        "rank": place + 1,
        other: targets[found.targets[kept]],
        "log_odds": found.logits[kept],
    }
    if "node_name" in graph[relation.target]:
        columns[f"{other} name"] = np.array(texts_of(graph, relation.target))[found.targets[kept]]
    return columns


def report_link_run(
    runs: list[Path],
    out: Path | None,
    *,
    plots: Path | None,
    nodes: int,
    graph: str | None,
    data_dir: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the page of one link run."""
    if len(runs) > 1 or plots is not None:
        raise InputError("a page about links shows one run and has no separate figures: give one run, without --plots.")
    from fastgtn.links.page import write_link_report

    place = runs[0] / "report.html" if out is None else out
    shown = min(nodes, MOST_SOURCES)
    facts = write_link_report(runs[0], place, sources=shown, graph=graph, data_dir=data_dir, force=force)
    size = place.stat().st_size
    if as_json:
        first = facts["paths"][0]["name"] if facts["paths"] else None
        emit_json({"out": str(place), "bytes": size, "runs": [{"run": str(runs[0]), "first": first}], "plots": []})
    else:
        say("saved", f"{place} · {size / 1e3:,.0f} kB · recommendations of up to {shown} sources")


def _explain_pair(result: LinkResult | LearnedLinks, pair: tuple[str, str], *, top: int, as_json: bool) -> None:
    from fastgtn.links.fit import LinkResult
    from fastgtn.links.folder import texts_by_type
    from fastgtn.runs.scoring.node_names import NodeNames

    relation, graph = result.task.relation, result.task.graph_at("use")
    source, target = (
        NodeNames(graph, t).number(name) for t, name in zip((relation.source, relation.target), pair, strict=True)
    )
    names = texts_by_type(graph, relation)
    reasons = result.explain(source, target)
    is_known = bool(result.task.known_rows("use")[source, target])
    if as_json:
        asked = {"relation": str(relation), "source": pair[0], "target": pair[1], "is_known": is_known}
        emit_json(asked | _as_values(reasons, names))
        return
    ends = f"{relation.source} {names[relation.source][source]} – {relation.target} {names[relation.target][target]}"
    say("pair", f"{ends} · log-odds {reasons.logit:+z.3f}")
    if is_known:
        say("", "this link is in the graph; it was hidden from the scores and paths below")
    is_mutual = relation.source == relation.target and isinstance(result, LinkResult)
    popular = "both ends" if is_mutual else f"the {relation.target}"
    say("", f"{reasons.bias:+z.3f} constant · {reasons.popularity:+z.3f} popularity of {popular}")
    for reason in reasons.reasons[:top]:
        say("", f"{reason.contribution:+z.3f} {reason.name}")
        for instance in reason.instances:
            through = " – ".join(f"{t} {names[t][n]}" for t, n in zip(reason.types, instance.nodes, strict=True))
            say("", f"       {100 * instance.share:4.1f} %  {through}")


def _as_values(reasons: LinkReasons, names: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "logit": reasons.logit,
        "bias": reasons.bias,
        "popularity": reasons.popularity,
        "paths": [
            {
                "name": reason.name,
                "contribution": reason.contribution,
                "instances": [
                    {
                        "nodes": [[t, names[t][n]] for t, n in zip(reason.types, instance.nodes, strict=True)],
                        "share": instance.share,
                    }
                    for instance in reason.instances
                ],
            }
            for reason in reasons.reasons
        ],
    }
