"""Stands in for SGLang's compiled CPU kernels, which exist only for machines with AMX.

SGLang imports these eight names when it starts; the `torch_native` attention path calls none of them. Each raises when
called, so that a path that would need one fails where it is, and not with a wrong number. Any other name is an
ImportError or AttributeError, as in a package that does not have it.
"""

from collections.abc import Callable
from typing import NoReturn


def _absent(name: str) -> Callable[..., NoReturn]:
    def kernel(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"sgl_kernel.{name}: no compiled CPU kernels on this machine")

    return kernel


assign_draft_cache_locs_contiguous_cpu = _absent("assign_draft_cache_locs_contiguous_cpu")
assign_extend_cache_locs_cpu = _absent("assign_extend_cache_locs_cpu")
assign_req_to_token_pool_cpu = _absent("assign_req_to_token_pool_cpu")
build_tree_kernel_efficient_cpu = _absent("build_tree_kernel_efficient_cpu")
copy_all_layer_kv_cache_cpu = _absent("copy_all_layer_kv_cache_cpu")
fill_accept_out_cache_loc_cpu = _absent("fill_accept_out_cache_loc_cpu")
fill_bonus_tokens_cpu = _absent("fill_bonus_tokens_cpu")
verify_tree_greedy_cpu = _absent("verify_tree_greedy_cpu")
