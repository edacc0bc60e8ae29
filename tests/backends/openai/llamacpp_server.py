# SPDX-License-Identifier: Apache-2.0
"""The bundled model in the real server of llama.cpp, for ``test_llamacpp``.

    python tests/backends/openai/llamacpp_server.py models/planner-small planner-small.gguf

It imports nothing of the project: it runs in an environment of its own with ``pip install xllamacpp gguf``, which
brings the C++ server of llama.cpp. It writes the model as GGUF, serves it on loopback and prints the port. The file
holds the vocabulary for reading tokens, not the bundled tokenizer's rules of splitting a text, which llama.cpp does
not have: prompts must come as token ids.
"""

import json
import sys
import threading
from pathlib import Path

import gguf
import numpy as np

SLOTS, CONTEXT = 4, 2048
OF_A_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def read_weights(path):
    """Returns the tensors of a safetensors file in bfloat16 or float32, as float32."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    weights = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        data = raw[start + first : start + last]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(data, {"F32": "<f4"}[entry["dtype"]])
        weights[name] = values.reshape(entry["shape"]).astype(np.float32)
    return weights


def with_paired_rotation(weight, num_heads):
    """Returns a query or key projection for a rotation of neighbours (2i, 2i+1) instead of halves (i, i + d/2)."""
    halves = weight.reshape(num_heads, 2, -1, weight.shape[1])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(weight.shape)


def write_gguf(model_dir, path):
    """Writes a checkpoint of the Llama shape with a byte-level tokenizer as GGUF."""
    config = json.loads((model_dir / "config.json").read_text())
    tokenizer = json.loads((model_dir / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(model_dir.name)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _add_vocabulary(writer, config, tokenizer)
    for name, values in read_weights(model_dir / "model.safetensors").items():
        stem = name.removeprefix("model.").removesuffix(".weight")
        if stem.startswith("layers."):
            _, layer, part = stem.split(".", 2)
            heads = {"self_attn.q_proj": "num_attention_heads", "self_attn.k_proj": "num_key_value_heads"}.get(part)
            rotated = with_paired_rotation(values, config[heads]) if heads else values
            writer.add_tensor(f"blk.{layer}.{OF_A_LAYER[part]}.weight", rotated)
        else:
            writer.add_tensor(
                {"embed_tokens": "token_embd.weight", "norm": "output_norm.weight", "lm_head": "output.weight"}[stem],
                values,
            )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_vocabulary(writer, config, tokenizer):
    texts = [f"<unused {token_id}>" for token_id in range(config["vocab_size"])]
    types = [gguf.TokenType.UNUSED] * len(texts)
    for text, token_id in tokenizer["model"]["vocab"].items():
        texts[token_id], types[token_id] = text, gguf.TokenType.NORMAL
    for token in tokenizer["added_tokens"]:
        texts[token["id"]], types[token["id"]] = token["content"], gguf.TokenType.CONTROL
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(texts)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_pad_token_id(config["pad_token_id"])
    writer.add_add_bos_token(value=False)


def serve(path):
    """Serves a model on loopback, one thread, and returns the server."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {Path(path).stem}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    return xllamacpp.Server(params)


if __name__ == "__main__":
    directory, file = map(Path, sys.argv[1:3])
    if not file.exists():
        write_gguf(directory, file)
    server = serve(file)
    print(server.listening_address, flush=True)
    threading.Event().wait()
