"""The trainer computes in bfloat16 only where that is fast."""

from pathlib import Path

import pytest

from workers.trainer.hardware import fast_dtype


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        ("flags\t\t: fpu avx2 avx512f avx512_bf16 amx_tile", "bfloat16"),
        ("flags\t\t: fpu avx2 amx_bf16", "bfloat16"),
        ("flags\t\t: fpu avx2 avx512f", "float32"),
        ("flags\t\t: fpu avx avx2 sha_ni", "float32"),
        ("Features\t: fp asimd bf16 i8mm", "bfloat16"),
        ("Features\t: fp asimd sve", "float32"),
        ("model name\t: a bf16 machine", "float32"),
    ],
)
def test_bfloat16_where_the_processor_multiplies_it(tmp_path: Path, line: str, dtype: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    assert fast_dtype(tmp_path) == dtype


def test_bfloat16_on_a_gpu_and_float32_where_nothing_is_known(tmp_path: Path) -> None:
    assert fast_dtype(tmp_path) == "float32"
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    assert fast_dtype(tmp_path) == "bfloat16"
