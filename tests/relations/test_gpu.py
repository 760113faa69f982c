"""The Triton kernel, tested in Triton's interpreter: the machine needs no GPU."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fastgtn.relations import RelationStack
from fastgtn.relations.operator import has_triton


@pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="Triton is not installed (290 MB): pip install -c constraints.txt -e '.[triton]'",
)
def test_the_kernel_agrees_with_plain_torch_in_the_interpreter() -> None:
    """Values and gradients, in float64, of several graphs; and the same bits in two runs."""
    program = Path(__file__).with_name("triton_hop.py")
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "agrees\n"


def test_the_processor_never_takes_the_kernel_of_a_gpu() -> None:
    assert not has_triton(torch.device("cpu"))
    stack = RelationStack.from_edges({("n", "r", "n"): torch.tensor([[0], [1]])}, {"n": 2})
    stack.propagate(torch.ones(2, 1, 3), torch.ones(1, 2))
    assert "fastgtn.relations.kernels.gpu" not in sys.modules
