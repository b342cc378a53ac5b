"""The models of workers.inference.model: layout on disk, tokenizer, determinism. SmolLM2 itself is marked slow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from gguf import GGUFReader
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from workers.inference.model import (
    MASK_TOKEN_ID,
    UNUSED_SPECIAL_IDS,
    _gguf_path,
    _make_once,
    build_tokenizer,
    ensure_smollm2,
    make_tiny,
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(GGUFReader(_gguf_path()))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny(tmp_path_factory.mktemp("models") / "tiny", seed=7, max_position_embeddings=512)


def test_digits_are_tokens_of_their_own(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("card 4111")) == ["card", "Ġ", "4", "1", "1", "1"]


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cn", "Co"]) | st.sampled_from("\t\n\r 0")))
def test_any_text_survives_encode_and_decode(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_bytes_without_a_token_are_dropped(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer.decode(tokenizer.encode("a\x04b\x1dc")) == "abc"


def test_chat_markers_are_single_ids(tokenizer: PreTrainedTokenizerFast) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert text == "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert (ids.count(1), ids.count(2)) == (3, 2)


def test_mask_id_is_a_special_token_no_text_encodes_to(tokenizer: PreTrainedTokenizerFast) -> None:
    assert MASK_TOKEN_ID in UNUSED_SPECIAL_IDS
    assert tokenizer.convert_ids_to_tokens(MASK_TOKEN_ID) == "<empty_output>"
    assert not set(tokenizer.encode("mask an empty output")) & set(UNUSED_SPECIAL_IDS)


def test_tiny_has_its_size_and_no_tied_head_on_disk(tiny: Path) -> None:
    weights = load_file(tiny / "model.safetensors")
    assert "lm_head.weight" not in weights
    assert 1_000_000 <= sum(tensor.numel() for tensor in weights.values()) <= 3_000_000
    config = json.loads((tiny / "config.json").read_text())
    assert (config["max_position_embeddings"], config["dtype"]) == (512, "float32")


def test_tiny_loads_and_scores(tiny: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny)
    assert AutoTokenizer.from_pretrained(tiny).eos_token_id == 2
    logits = model(torch.tensor([[1, 9690, 198]])).logits
    assert logits.shape == (1, 3, 49152)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_tiny_is_the_same_for_one_seed_and_differs_for_another(tiny: Path, tmp_path: Path) -> None:
    state = torch.random.get_rng_state()
    same = make_tiny(tmp_path / "same", seed=7, max_position_embeddings=512)
    other = make_tiny(tmp_path / "other", seed=8, max_position_embeddings=512)
    assert torch.equal(torch.random.get_rng_state(), state)
    files = [(path / "model.safetensors").read_bytes() for path in (tiny, same, other)]
    assert files[0] == files[1] != files[2]


def test_failed_build_leaves_nothing_and_finished_one_is_kept(tmp_path: Path) -> None:
    def fails(staging: Path) -> None:
        (staging / "half").write_text("")
        raise RuntimeError("disk")

    with pytest.raises(RuntimeError):
        _make_once(tmp_path / "model", fails)
    assert list(tmp_path.iterdir()) == []
    made = _make_once(tmp_path / "model", lambda staging: None)
    assert _make_once(made, fails) == made


def test_lost_race_takes_the_other_directory(tmp_path: Path) -> None:
    target = tmp_path / "model"

    def other_process_wins(staging: Path) -> None:
        target.mkdir()
        (target / "winner").write_text("")

    assert (_make_once(target, other_process_wins) / "winner").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.slow
def test_smollm2_answers_in_english(tmp_path: Path) -> None:
    directory = ensure_smollm2(tmp_path, dtype="float32")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}], add_generation_prompt=True, return_tensors="pt"
    )
    output = model.generate(**prompt, max_new_tokens=12, do_sample=False)
    answer = tokenizer.decode(output[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True)
    assert answer == "The capital of France is Paris."
