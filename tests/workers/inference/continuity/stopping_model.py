"""A random tiny model that ends its answers: the plain one almost never samples its end-of-turn token, so all answers are cut."""

from pathlib import Path

import torch

from workers.inference.model import make_tiny

_CONSTANT = 0
"""The feature of the hidden state that every token sets to one and no layer changes: a bias, which Llama has not."""


def make_stopping(directory: Path, end_bonus: float = 7.0) -> Path:
    """Write the model into `directory`: `end_bonus` is about what the end token's logit has above the others' mean."""
    from transformers import AutoTokenizer, LlamaForCausalLM  # importable once `workers` is, on a CPU build of torch

    tiny = make_tiny(directory / "tiny", seed=0, max_position_embeddings=8192)
    model = LlamaForCausalLM.from_pretrained(tiny)
    tokenizer = AutoTokenizer.from_pretrained(tiny)
    with torch.no_grad():
        model.config.tie_word_embeddings = False
        model.lm_head.weight = torch.nn.Parameter(model.model.embed_tokens.weight.clone())
        model.model.embed_tokens.weight[:, _CONSTANT] = 1.0
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight[_CONSTANT] = 0.0
            layer.mlp.down_proj.weight[_CONSTANT] = 0.0
        model.lm_head.weight[:, _CONSTANT] = 0.0
        hidden = model.model(torch.arange(200, 300)[None]).last_hidden_state[0, :, _CONSTANT]
        model.lm_head.weight[tokenizer.eos_token_id, _CONSTANT] = end_bonus / hidden.mean()
    model.save_pretrained(directory / "stopping")
    tokenizer.save_pretrained(directory / "stopping")
    return directory / "stopping"
