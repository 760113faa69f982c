"""Label leakage: do the neighbours of a node reveal its label?"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import HeteroData

from fastgtn.data.archive.arrays import Array
from fastgtn.data.archive.decode import Labels

FEWEST_NODES = 20  # fewer guesses are not conclusive
LIKELY = 0.95


@dataclass(frozen=True)
class Leak:
    """How well labels can be guessed from the neighbours in one relation.

    Args:
        agreement: Share of correct guesses among the nodes that could be guessed.
        coverage: Share of labelled nodes that could be guessed.
        guess_by_size: Share of the most common class, which is the score of guessing without the relation.
        neighbours: Number of distinct nodes at the other end of the relation.
        classes: Number of classes that the labelled nodes have.
    """

    relation: tuple[str, str, str]
    agreement: float
    coverage: float
    guess_by_size: float
    neighbours: int
    classes: int

    @property
    def is_certain(self) -> bool:
        """Whether the neighbours are the classes: one of them for each class, and never a wrong guess."""
        return self.agreement == 1 and self.coverage == 1 and self.neighbours == self.classes


def is_leak(leak: Leak) -> bool:
    """Whether nearly all guesses are right, and not only because one class is very frequent."""
    return leak.agreement >= LIKELY and 1 - leak.agreement <= (1 - leak.guess_by_size) / 4


def measure_leaks(graph: HeteroData, labels: Labels) -> list[Leak]:
    """Guess each training and validation label from the other labelled nodes that share a neighbour with it.

    A node that represents a class (a venue, if the venue is the label) makes such guesses perfect. Within the
    target type, the labels of the neighbours are the guess. A relation and its reverse are measured once.
    """
    if labels.kind == "number":
        return []  # numbers are not guessed by votes
    visible = labels.train if labels.val is None else np.concatenate([labels.train, labels.val])
    known = np.unique(np.asarray(visible))
    known = known[(labels.labels[known] >= 0).numpy()] if labels.kind != "multi" else known
    answers = _answers(labels, known)
    leaks, seen = [], set()
    for edge_type in graph.edge_types:
        source, _, target = edge_type
        if labels.target not in (source, target):
            continue
        matrix = _neighbours(graph, edge_type, labels.target)
        fingerprint = (source if target == labels.target else target, matrix.nnz, hash(matrix.indices.tobytes()))
        if fingerprint in seen:
            continue
        seen.add(fingerprint)
        leak = _leak(edge_type, matrix[known], known, answers, several=labels.kind == "multi")
        if leak is not None:
            leaks.append(leak)
    return leaks


def _answers(labels: Labels, known: Array) -> Any:
    """Labels of the known nodes, one row each, one column per class."""
    y = labels.labels[known].numpy()
    if labels.kind == "multi":
        return sp.csr_matrix(y)
    width = int(labels.labels.max()) + 1
    return sp.csr_matrix((np.ones(len(y)), (np.arange(len(y)), y)), shape=(len(y), width))


def _neighbours(graph: HeteroData, edge_type: tuple[str, str, str], own: str) -> Any:
    """Zero-one matrix from the nodes of type `own` to the nodes at the other end of the relation."""
    source, _, target = edge_type
    start, end = graph[edge_type].edge_index.numpy()
    row, col, other = (end, start, source) if target == own else (start, end, target)
    shape = (graph[own].num_nodes, graph[other].num_nodes)
    matrix = sp.csr_matrix((np.ones(len(row)), (row, col)), shape=shape)
    matrix.data[:] = 1
    return matrix


def _leak(edge_type: tuple[str, str, str], matrix: Any, known: Array, answers: Any, *, several: bool) -> Leak | None:
    same_type = edge_type[0] == edge_type[2]
    voters, votes = _direct_votes(matrix, known, answers) if same_type else _shared_votes(matrix, answers)
    covered = np.flatnonzero(voters > 0)
    if len(covered) < FEWEST_NODES:
        return None
    truth, guess = answers[covered], sp.csr_matrix(votes)[covered]
    if several:
        chosen = sp.diags(1 / voters[covered]) @ guess >= 0.5
        agreement = 2 * chosen.multiply(truth).sum() / max(chosen.sum() + truth.sum(), 1)
    else:
        agreement = (np.asarray(guess.argmax(1)).ravel() == np.asarray(truth.argmax(1)).ravel()).mean()
    return Leak(
        relation=edge_type,
        agreement=float(agreement),
        coverage=len(covered) / len(voters),
        guess_by_size=float(np.asarray(answers.mean(0)).max()),
        neighbours=len(np.unique(matrix.indices)),
        classes=int((np.asarray(answers.sum(0)) > 0).sum()),
    )


def _direct_votes(matrix: Any, known: Array, answers: Any) -> tuple[Array, Any]:
    """Number of labelled neighbours of each known node, and the sum of their labels."""
    among = matrix[:, known]
    among = among - sp.diags(among.diagonal())  # a node does not vote for itself
    return np.asarray(among.sum(1)).ravel(), among @ answers


def _shared_votes(matrix: Any, answers: Any) -> tuple[Array, Any]:
    """Number of neighbours with other labelled nodes, and the sum of the mean labels of those nodes."""
    others = np.asarray(matrix.sum(0)).ravel() - 1  # labelled nodes at each neighbour, without the node itself
    share = sp.diags(np.where(others > 0, 1 / np.maximum(others, 1), 0))
    own = sp.diags(np.asarray((matrix @ share).sum(1)).ravel())
    votes = matrix @ (share @ (matrix.T @ answers)) - own @ answers
    return matrix @ (others > 0).astype(float), votes
