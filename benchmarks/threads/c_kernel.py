"""The fused hop in C with OpenMP, compiled on demand, for comparison with our kernel.

It knows nothing of numba or torch. Forward: all edges of a row, channels side by side, into one row of the result.
Backward: the same over the transposed edges, and one inner product per (row, relation) segment for the filters.
"""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fastgtn.relations import RelationStack

SOURCE = r"""
#include <omp.h>
#include <string.h>

/* out = sum_t alpha[c,t] A_t x, rows of C*d numbers */
void forward(long rows, long C, long T, long d, const long *row_ptr, const int *relation, const long *seg_ptr,
             const int *col, const float *val, const float *alpha, const float *x, float *out) {
    long width = C * d;
    #pragma omp parallel for schedule(dynamic, 128)
    for (long i = 0; i < rows; i++) {
        float *restrict o = out + i * width;
        memset(o, 0, width * sizeof(float));
        for (long s = row_ptr[i]; s < row_ptr[i + 1]; s++)
            for (long e = seg_ptr[s]; e < seg_ptr[s + 1]; e++) {
                const float *restrict from = x + col[e] * width;
                for (long c = 0; c < C; c++) {
                    float weight = alpha[c * T + relation[s]] * val[e];
                    for (long k = c * d; k < c * d + d; k++) o[k] += weight * from[k];
                }
            }
    }
}

/* the same, and grad[c,t] = <A_t x, probe>; sums holds one row of C*T numbers per block of 128 rows */
void backward(long rows, long C, long T, long d, const long *row_ptr, const int *relation, const long *seg_ptr,
              const int *col, const float *val, const float *alpha, const float *x, float *out,
              const float *probe, double *sums) {
    long width = C * d, blocks = (rows + 127) / 128;
    #pragma omp parallel
    {
        float part[width];
        #pragma omp for schedule(dynamic, 1)
        for (long b = 0; b < blocks; b++) {
            double *sum = sums + b * C * T;
            memset(sum, 0, C * T * sizeof(double));
            for (long i = b * 128; i < rows && i < b * 128 + 128; i++) {
                float *restrict o = out + i * width;
                const float *restrict p = probe + i * width;
                memset(o, 0, width * sizeof(float));
                for (long s = row_ptr[i]; s < row_ptr[i + 1]; s++) {
                    memset(part, 0, width * sizeof(float));
                    for (long e = seg_ptr[s]; e < seg_ptr[s + 1]; e++) {
                        const float *restrict from = x + col[e] * width;
                        float weight = val[e];
                        for (long k = 0; k < width; k++) part[k] += weight * from[k];
                    }
                    for (long c = 0; c < C; c++) {
                        float a = alpha[c * T + relation[s]], dot = 0;
                        for (long k = c * d; k < c * d + d; k++) { o[k] += a * part[k]; dot += p[k] * part[k]; }
                        sum[c * T + relation[s]] += dot;
                    }
                }
            }
        }
    }
}
"""


def compile_kernel() -> ctypes.CDLL | None:
    """The compiled functions; None without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="fastgtn-c-"))
    (folder / "hop.c").write_text(SOURCE)
    command = [compiler, "-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC", "-o", "hop.so", "hop.c"]
    if subprocess.run(command, cwd=folder, capture_output=True).returncode:
        return None
    return ctypes.CDLL(str(folder / "hop.so"))


def c_steps(library: ctypes.CDLL, stack: RelationStack, *, K: int, C: int, d: int) -> dict[str, Callable[[], None]]:
    """K hops forward, and K hops backward with the gradients of the filters, without autograd around them."""
    (edges,) = stack.operator.edges
    transposed, order = edges.segments.transposed
    T = edges.segments.num_relations
    random = np.random.default_rng(0)
    alpha = random.random((C, T), np.float32)
    x = random.random((stack.num_nodes, C * d), np.float32)
    out, probe = np.zeros_like(x), np.ones_like(x)
    sums = np.zeros(((stack.num_nodes + 127) // 128, C, T))
    there = [v.numpy() for v in (edges.segments.row_ptr, edges.segments.relation, edges.segments.seg_ptr)]
    back = [v.numpy() for v in (transposed.row_ptr, transposed.relation, transposed.seg_ptr)]
    columns = edges.segments.col.numpy(), transposed.col.numpy()
    values = edges.values.numpy(), edges.values[order].numpy()
    sizes = [ctypes.c_long(n) for n in (stack.num_nodes, C, T, d)]

    def forward() -> None:
        for _ in range(K):
            library.forward(*sizes, *map(_at, (*there, columns[0], values[0], alpha, x, out)))

    def backward() -> None:
        for _ in range(K):
            library.backward(*sizes, *map(_at, (*back, columns[1], values[1], alpha, x, out, probe, sums)))

    return {"forward": forward, "backward": backward}


def _at(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
