"""A folder of a Llama-shaped model with byte-level BPE as one GGUF file in float32, for servers of llama.cpp's kind.

``python -m tests.gguf_model FOLDER FILE`` writes one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

NORMAL, CONTROL = 1, 3
"""Kinds of tokens, as GGUF numbers them."""
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"embed_tokens": "token_embd", "norm": "output_norm"}


def write_gguf(
    folder: Path, file: Path, quantisation: str | None = None, architecture: str = "llama", *, tokenizer: bool = True
) -> None:
    """:param folder: of a LlamaForCausalLM and its tokenizer.json.
    :param quantisation: of its matrices, such as "Q4_1"; None for float32.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, quantize
    from transformers import AutoModelForCausalLM

    network = AutoModelForCausalLM.from_pretrained(folder).float()
    config = network.config
    writer = GGUFWriter(str(file), architecture)
    if quantisation is not None:
        writer.add_file_type(LlamaFileType[f"MOSTLY_{quantisation}"])
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if tokenizer:
        _add_tokenizer(writer, folder, config)
    for name, weight in network.named_parameters():
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
        own = next((count for part, count in heads.items() if part in name), None)
        values = weight.numpy(force=True)
        values = values if own is None else _in_pairs(values, own)
        kind = None if quantisation is None or values.ndim < 2 else GGMLQuantizationType[quantisation]
        writer.add_tensor(_name(name), values if kind is None else quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer, folder: Path, config) -> None:
    core = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    words = sorted(core["model"]["vocab"], key=core["model"]["vocab"].__getitem__)
    special = {added["content"] for added in core["added_tokens"]}
    assert len(words) == config.vocab_size, "every row of the embeddings has a token"
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(words)
    writer.add_token_types([CONTROL if word in special else NORMAL for word in words])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in core["model"]["merges"]])
    writer.add_bos_token_id(config.bos_token_id)
    writer.add_eos_token_id(config.eos_token_id)
    writer.add_add_bos_token(True)


def _name(name: str) -> str:
    """GGUF's name of a weight."""
    if name == "lm_head.weight":
        return "output.weight"
    stem = name.removeprefix("model.").removesuffix(".weight")
    if not stem.startswith("layers."):
        return f"{WHOLE[stem]}.weight"
    _, number, part = stem.split(".", 2)
    return f"blk.{number}.{LAYER[part]}.weight"


def _in_pairs(weight: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """llama.cpp rotates neighbouring rows of a head, transformers those half a head apart."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


if __name__ == "__main__":
    write_gguf(Path(sys.argv[1]), Path(sys.argv[2]))
