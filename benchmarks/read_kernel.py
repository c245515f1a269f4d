"""A kernel that reads an array once and does next to nothing with it, for ``gpu.py``."""

# pyright: reportMissingImports=false

import triton
import triton.language as tl


@triton.jit
def read_blocks(x, out, n, BLOCK: tl.constexpr):
    """out[b] = the sum of block b of x (n,)."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + place, mask=place < n, other=0), 0))
