"""Tiny models with random weights of every family that `transformers` offers, and what Fathom makes of each.

    python -m tests.zoo [FAMILY ...]

prints a table with a row per family: how it runs (tree, states, plain, masked, pairs), or why it is refused or could
not be built here; then the lists that docs/notes/models.md shortens. "failed" is a traceback. Configurations come from
the classes' own defaults, made small by :data:`SMALL`.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import CONFIG_MAPPING, PreTrainedModel
from transformers.models.auto import modeling_auto as auto

from fathom.base.errors import BadInput, RunFailed
from fathom.engine.models.base import Attention
from fathom.engine.models.encoder_decoder import EncoderDecoder
from fathom.engine.models.loading import wrap
from fathom.engine.models.local import LocalModel
from fathom.engine.scoring.causal import causal_log_probs
from fathom.engine.scoring.masked import Pll, masked_log_probs
from fathom.engine.scoring.memory import Budget
from fathom.engine.scoring.seq2seq import Pair, seq2seq_log_probs
from fathom.engine.scoring.tokens import Role, Tokens
from tests.conftest import TINY_VOCABULARY, tiny_tokenizer

FAMILIES: dict[str, str] = {
    **auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    **{f"{type_} (masked)": kind for type_, kind in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES.items()},
    **{
        f"{type_} (pairs)": kind
        for type_, kind in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES.items()
        if type_ in {"bart", "fsmt", "led", "longt5", "m2m_100", "marian", "mbart", "mt5", "mvp", "pegasus", "plbart"}
        or type_ in {"prophetnet", "switch_transformers", "t5", "t5gemma", "umt5", "blenderbot", "bigbird_pegasus"}
    },
}
"""Name → class. A name is a model type, with what the class does where one type has several."""
MULTIMODAL = {
    "gemma3 (with images)": "Gemma3ForConditionalGeneration",
    "llama4 (with images)": "Llama4ForConditionalGeneration",
    "qwen2_5_vl (with images)": "Qwen2_5_VLForConditionalGeneration",
    "qwen3_vl (with images)": "Qwen3VLForConditionalGeneration",
    "qwen3_5 (with images)": "Qwen3_5ForConditionalGeneration",
    "mistral3 (with images)": "Mistral3ForConditionalGeneration",
    "llava (with images)": "LlavaForConditionalGeneration",
}
UNBUILT = {
    "gemma3n": "its image encoder needs timm (its text model is gemma3n_text)",
    "gemma4_assistant": "it drafts for another model, whose keys and values it reads",
    "gemma4_unified_assistant": "it drafts for another model, whose keys and values it reads",
}
"""Not built here, and why."""
TITLES = {
    "tree": "Tree",
    "states": "States",
    "plain": "Plain batches",
    "masked": "Masked",
    "pairs": "Encoder-decoders",
    "refused": "Refused",
    "not built": "Not built",
}
SAID = ("refused", "not built")
"""With the reason."""
HEADS, WIDTH = 4, 32
LIMITS: dict[str, int] = {
    **dict.fromkeys(
        ("sliding_window", "attention_chunk_size", "index_topk", "floor_scale", "attention_window_size",
         "keep_window_size", "sliding_window_size", "window_size", "local_attention", "local_attention_window_len",
         "rel_extent", "mamba_chunk_size", "chunk_size", "original_max_position_embeddings", "local_radius",
         "relative_attention_max_distance", "relative_max_distance"),
        12,
    ),
    **dict.fromkeys(
        ("attention_window", "local_attn_chunk_length", "lsh_attn_chunk_length"), 8
    ),
    **dict.fromkeys(("block_size", "index_block_size"), 4),
}  # fmt: skip
"""Numbers of tokens that the texts exceed: windows, chunks, blocks, and how many tokens are attended to."""
SMALL: dict[str, Any] = {
    **dict.fromkeys(
        ("hidden_size", "n_embd", "d_model", "dim", "emb_dim", "embedding_size", "hidden_dim", "word_embed_proj_dim",
         "embedding_hidden_size", "embed_dim", "out_hidden_size"),
        WIDTH,
    ),
    **dict.fromkeys(
        ("intermediate_size", "n_inner", "d_ff", "d_inner", "encoder_ffn_dim", "decoder_ffn_dim", "ffn_dim",
         "mamba_d_ssm"),
        2 * WIDTH,
    ),
    **dict.fromkeys(
        ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
         "num_decoder_layers", "num_encoder_layers", "depth"),
        4,
    ),
    **dict.fromkeys(
        ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "mamba_n_heads",
         "decoder_attention_heads", "num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
        HEADS,
    ),
    **dict.fromkeys(
        ("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "seq_length"), 160
    ),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "mamba_headdim"), WIDTH),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "mamba_d_head"), 16),
    **dict.fromkeys(("head_dim", "d_kv", "v_head_dim", "qk_head_dim", "index_head_dim"), 8),
    **dict.fromkeys(("state_size", "mamba_d_state", "relative_attention_num_buckets"), 8),
    **dict.fromkeys(("rotary_dim", "qk_rope_head_dim", "qk_nope_head_dim"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_experts_per_tok", "moe_k", "mamba_expand", "n_mamba_heads"), 2),
    **dict.fromkeys(("index_n_heads",), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **LIMITS,
    **dict.fromkeys(("initializer_range", "init_std"), 0.2),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input", "entity_vocab_size"), TINY_VOCABULARY),
    "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "mask_token_id": 3, "decoder_start_token_id": 2,
}  # fmt: skip
SIZES: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
}
TEXT: dict[str, Any] = {
    **SIZES,
    "vocab_size": TINY_VOCABULARY,
    "initializer_range": 0.2,
    "max_position_embeddings": 160,
}
IMAGES: dict[str, Any] = {**SIZES, "num_hidden_layers": 1, "image_size": 16, "patch_size": 4}
SPECIAL = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "cls_token_id": 0, "sep_token_id": 2}
TEXT_AND_IMAGES: dict[str, Any] = {
    "text_config": {"model_type": "llama", "num_key_value_heads": 2, **TEXT},
    "vision_config": {"model_type": "clip_vision_model", "projection_dim": WIDTH, **IMAGES},
}
"""Of wrappers whose parts may be any model: by default they are of full size."""
MROPE: dict[str, Any] = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
"""Positions of time, height and width share the sizes of a head."""
LINEAR_AND_FULL = ["linear_attention", "full_attention"] * 2
AXIAL: dict[str, Any] = {
    "attn_layers": ["local", "lsh"] * 2,
    "axial_pos_shape": (8, 20),
    "axial_pos_embds_dim": (8, 24),
    "attention_head_size": 8,
}
INDEXED: dict[str, Any] = {
    "indexer_n_heads": 2,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 8,
    "indexer_compress_ratio": 2,
    "hc_lowrank": 8,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
GEMMA3: dict[str, Any] = {"vision_config": {"model_type": "siglip_vision_model", **IMAGES}, "mm_tokens_per_image": 4}
OWN: dict[str, dict[str, Any]] = {
    "gemma3": GEMMA3,
    "gemma3 (with images)": GEMMA3,
    "mpnet (masked)": {"relative_attention_num_buckets": 32},  # which its code takes for granted
    "prophetnet (pairs)": {"num_buckets": 8},
    "rembert (masked)": {"input_embedding_size": WIDTH, "output_embedding_size": WIDTH},
    "perceiver (masked)": {"d_latents": WIDTH, "num_latents": 16, "num_self_attends_per_block": 2},
    "llava (with images)": TEXT_AND_IMAGES,
    "mistral3 (with images)": {
        **TEXT_AND_IMAGES, "vision_config": {"model_type": "pixtral", "head_dim": 8, **IMAGES},
    },
    "qwen2_5_vl (with images)": {
        "text_config": {**TEXT, "num_key_value_heads": 2, "rope_parameters": MROPE},
        "vision_config": {"out_hidden_size": WIDTH, "depth": 1, "num_heads": HEADS, **SIZES},
    },
    "fuyu": {"text_config": {"model_type": "persimmon", **TEXT}},
    "got_ocr2": {
        "text_config": {"model_type": "qwen2", "num_key_value_heads": 2, **TEXT},
        "vision_config": {
            **IMAGES, "output_channels": 8, "mlp_dim": WIDTH, "global_attn_indexes": [0], "window_size": 2,
        },
    },
    "moss_transcribe_diarize": {
        "text_config": {"model_type": "qwen3", "head_dim": 8, "num_key_value_heads": 2, **TEXT},
        "audio_config": {**SIZES, "max_source_positions": 16, "num_mel_bins": 8},
    },
    "modernvbert (masked)": {
        "text_config": {"model_type": "modernbert", **TEXT, **SPECIAL},
        "vision_config": {"model_type": "siglip_vision_model", **IMAGES},
        "image_token_id": 9, "pixel_shuffle_factor": 2,
    },
    "ultravbert (masked)": {"text_config": {**TEXT, **SPECIAL}, "vision_config": IMAGES, "image_token_id": 9},
    "moshi": {
        "audio_vocab_size": 16,
        "audio_encoder_config": {
            **SIZES, "model_type": "mimi", "num_filters": 2, "codebook_size": 16, "codebook_dim": 8,
            "vector_quantization_hidden_dimension": 8,
        },
    },
    "musicgen": {"num_codebooks": 1},
    "musicgen_melody": {"num_codebooks": 1},
    "whisper": {"max_target_positions": 160, "max_source_positions": 8, "num_mel_bins": 8},
    "blt": {
        "patcher_config": TEXT, "global_config": TEXT,
        "encoder_config": {**TEXT, "hidden_size_global": WIDTH},
        "decoder_config": {**TEXT, "hidden_size_global": WIDTH},
        "encoder_hash_byte_group_vocab": 50, "encoder_hash_byte_group_size": [3, 4],
        "use_cache": False,  # its cache asks for a number of layers, which its configuration has none of
    },
    "bailing_hybrid": {"layer_group_size": 2},
    "kimi_linear": {"layer_types": LINEAR_AND_FULL, "linear_head_dim": 8, "linear_num_heads": HEADS},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2, "num_dense_layers": 1},
    "cohere_compass_text": {
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "rope_parameters": {"sliding_attention": MROPE, "full_attention": MROPE},
    },
    "dbrx": {
        "attn_config": {"rope_theta": 1e4, "kv_n_heads": 2, "clip_qkv": 8.0},
        "ffn_config": {"hidden_size": WIDTH, "ffn_hidden_size": WIDTH, "moe_num_experts": HEADS, "moe_top_k": 2},
    },
    "dots1": {"n_shared_experts": 1, "n_routed_experts": HEADS, "num_experts_per_tok": 2},
    "longcat_flash": {
        "head_dim": 4, "num_layers": 2, "moe_topk": 2, "zero_expert_num": 2, "ffn_hidden_size": WIDTH,
        "expert_ffn_hidden_size": WIDTH,
    },
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "qwen4_exp": INDEXED,
    "qwen4_exp_text": INDEXED,
    "xlstm": {"hidden_size": 128},  # half of it is a multiple of 64
    "zamba": {"attn_layer_period": 1, "attn_layer_offset": 0},
    "zamba2": {"layers_block_type": ["linear_attention", "hybrid"] * 2, "initializer_range": 0.1},
    "zaya": {"num_experts_per_tok": 1},
    "mamba2": {"head_dim": 16, "expand": 2, "n_groups": 1},
    "reformer": {"is_decoder": True, **AXIAL},
    "reformer (masked)": AXIAL,
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 2, "n_output_layers": 1},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "bamba": {"attn_layer_indices": [1, 3]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention", "mamba", "attention"]},
    "xmod": {"is_decoder": True, "default_language": "en_XX"},
    "xmod (masked)": {"default_language": "en_XX"},
    **{
        type_: {"is_decoder": True}
        for type_ in ("bert", "bert-generation", "big_bird", "camembert", "data2vec-text", "electra", "ernie",
                      "megatron-bert", "rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer",
                      "xlm-roberta", "xlm-roberta-xl", "prophetnet")
    },
}  # fmt: skip
"""What a family needs besides, or instead."""
WITHOUT = ((), ("head_dim",), ("head_dim", "num_key_value_heads"), ("qk_head_dim",), ("num_key_value_heads",))
"""Sizes left at their defaults in turn, until a model can be built: some are worked out from others."""
Floats = NDArray[np.floating[Any]]
SHORT, LONGEST = 4, 200
STATEMENTS = [
    *([0, 10, 11, 12, 13 + number, 20, 30 + number % 2] for number in range(SHORT)),
    *([0, *(10 + 7 * place % 60 for place in range(length))] for length in (20, 41, 90, LONGEST)),
]
"""Short ones with a common beginning, and some longer than all limits in :data:`SMALL`."""


class FamilyResult(NamedTuple):
    """:param how: tree, states, plain, masked, pairs; "refused" or "not built".
    :param why: where it is refused, or not built.
    :param off: largest difference from the model's own forward pass, in nats.
    :param limits: those of :data:`LIMITS` that its configuration has.
    """

    how: str
    why: str = ""
    off: float = 0.0
    limits: str = ""


def tiny(kind: Any, without: tuple[str, ...] = (), **own: Any) -> Any:
    """A small configuration of this class, its parts small, too."""
    try:
        defaults = set(kind().to_dict())
    except Exception:  # some cannot be made without arguments
        defaults = set()
    names = (set(inspect.signature(kind.__init__).parameters) | defaults) - set(without)
    said = {name: value for name, value in SMALL.items() if name in names}
    if "kv_lora_rank" in names:  # latent attention has as many keys as queries
        said["num_key_value_heads"] = HEADS
    for part, sub in (getattr(kind, "sub_configs", None) or {}).items():
        if sub.__name__ != "AutoConfig":
            said[part] = tiny(sub, without).to_dict()
    return kind(**said | own)


def built(name: str, architecture: str) -> PreTrainedModel:
    """Random weights, and a forward pass tried. Raises what the library raises."""
    kind = getattr(transformers, architecture)
    config_kind = kind.config_class or CONFIG_MAPPING[name.partition(" ")[0]]
    own = OWN.get(name, {}) | ({"decoder_start_token_id": 2} if name.endswith("(pairs)") else {})
    first: Exception | None = None
    for without in WITHOUT:
        try:
            torch.manual_seed(0)
            network = kind(tiny(config_kind, without, **own)).eval()
            with torch.inference_mode():
                network(input_ids=torch.arange(4, 12)[None], **_decoder_too(network))
        except Exception as error:  # whatever the sizes break
            first = first or error
        else:
            return network
    assert first is not None
    raise first


def _decoder_too(network: PreTrainedModel) -> dict[str, Any]:
    return {"decoder_input_ids": torch.tensor([[2, 5]])} if network.config.is_encoder_decoder else {}


def seen(name: str, architecture: str) -> FamilyResult:
    """What Fathom makes of the family."""
    if name in UNBUILT:
        return FamilyResult("not built", UNBUILT[name])
    try:
        network = built(name, architecture)
    except Exception as error:  # the zoo cannot have every animal
        return FamilyResult("not built", f"{type(error).__name__}: {' '.join(str(error).split())[:80]}")
    try:
        return _scored(network)._replace(limits=limits(network))
    except (BadInput, RunFailed) as error:
        return FamilyResult("refused", str(error))
    except Exception as error:  # a traceback in a run
        return FamilyResult("failed", f"{type(error).__name__}: {' '.join(str(error).split())[:80]}", np.inf)


def limits(network: PreTrainedModel) -> str:
    """The limits of its configuration that the texts exceed."""
    config = network.config.get_text_config().to_dict()
    return ", ".join(f"{name} {config[name]}" for name in LIMITS if config.get(name) == LIMITS[name])


def _scored(network: PreTrainedModel) -> FamilyResult:
    model = wrap(network, tiny_tokenizer())
    budget = Budget(512, model.device)
    if isinstance(model, EncoderDecoder):
        return FamilyResult("pairs", off=_off_pairs(network, model, budget))
    if model.attention is Attention.BIDIRECTIONAL:
        return FamilyResult("masked", off=_off_masked(network, model, budget))
    off = _off_causal(network, model, budget)
    longest = max(map(len, _fitting(model)))
    how = "tree" if model.refuses_tree(longest) is None else "plain"
    if how == "plain" and model.refuses_states(longest) is None:
        how = "states"
    return FamilyResult(how, "; ".join(model.refusals()), off)


@torch.inference_mode()
def _off_causal(network: PreTrainedModel, model: LocalModel, budget: Budget) -> float:
    off = 0.0
    statements = _fitting(model)
    for ids, found in zip(statements, causal_log_probs(model, statements, budget), strict=True):
        log_probs = torch.log_softmax(network(input_ids=torch.tensor([ids])).logits[0].float(), dim=-1)
        own = log_probs[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].numpy()
        off = _larger(off, found[1:] - own)
    return off


@torch.inference_mode()
def _off_masked(network: PreTrainedModel, model: LocalModel, budget: Budget) -> float:
    off = 0.0
    statements = [_tokens([*ids, 2]) for ids in _fitting(model)]
    for tokens, found in zip(statements, masked_log_probs(model, statements, Pll.ORIGINAL, budget), strict=True):
        for at in range(1, len(tokens.ids) - 1):
            ids = torch.from_numpy(tokens.ids.copy())[None]
            ids[0, at] = model.tokenizer.mask_token_id
            own = torch.log_softmax(network(input_ids=ids).logits[0, at].float(), dim=-1)[tokens.ids[at]]
            off = _larger(off, np.array(float(own) - float(found[at])))
    return off


@torch.inference_mode()
def _off_pairs(network: PreTrainedModel, model: EncoderDecoder, budget: Budget) -> float:
    off = 0.0
    sources = [ids[: 3 + number] if number < SHORT else ids for number, ids in enumerate(_fitting(model))]
    targets = [_tokens([0, *ids[3:], 2]) for ids in _fitting(model)]
    pairs = [Pair((*source, 2), target) for source, target in zip(sources, targets, strict=True)]
    for pair, found in zip(pairs, seq2seq_log_probs(model, pairs, budget), strict=True):
        said = torch.from_numpy(pair.target.ids)[None]
        started = torch.cat([torch.tensor([[model.first]]), said[:, :-1]], dim=1)
        logits = network(input_ids=torch.tensor([pair.source]), decoder_input_ids=started).logits[0]
        own = torch.log_softmax(logits.float(), dim=-1).gather(1, said[0, :, None])[:, 0].numpy()
        off = _larger(off, found - own)
    return off


def _fitting(model: LocalModel | EncoderDecoder) -> list[list[int]]:
    """Leave out what is longer than the model's positions, which every probe reports as unscored."""
    return [ids for ids in STATEMENTS if model.max_tokens is None or len(ids) < model.max_tokens]


def _larger(off: float, differences: Floats) -> float:
    """A NaN stays one."""
    return float(np.max([off, float(np.abs(differences).max())]))


def _tokens(ids: list[int]) -> Tokens:
    """Special at both ends."""
    roles = np.array([Role.SPECIAL, *[Role.ANSWER] * (len(ids) - 2), Role.SPECIAL])
    return Tokens(np.array(ids), roles, np.arange(len(ids)), 0)


def lists(found: Mapping[str, FamilyResult]) -> list[str]:
    """Return the families by the way they run, as docs/notes/models.md lists them."""
    lines = []
    for how, title in TITLES.items():
        own = [
            f"{name}: {one.why}" if how in SAID else re.sub(r" \((?:pairs|masked)\)", "", name)
            for name, one in found.items()
            if one.how == how
        ]
        lines.append(f"- **{title}** ({len(own)}): {('; ' if how in SAID else ', ').join(own)}.")
    return lines


def main() -> None:
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    wanted = sys.argv[1:]
    every: dict[str, FamilyResult] = {}
    print("| family | path | largest difference, nats | limits that texts exceed | note |\n|---|---|---:|---|---|")  # noqa: T201
    for name, architecture in {**FAMILIES, **MULTIMODAL}.items():
        if not wanted or name in wanted:
            every[name] = found = seen(name, architecture)
            print(f"| {name} | {found.how} | {found.off:.0e} | {found.limits} | {found.why} |", flush=True)  # noqa: T201
    print("", *lists(every), sep="\n")  # noqa: T201


if __name__ == "__main__":
    main()
