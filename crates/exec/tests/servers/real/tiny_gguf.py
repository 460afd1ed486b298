"""Writes a language model with random weights that llama.cpp can load: tiny_gguf.py FILE SEED."""

import sys

import gguf
import numpy

WIDTH, HEADS, LAYERS, INNER, CONTEXT = 64, 4, 2, 128, 512

path, seed = sys.argv[1], int(sys.argv[2])
random = numpy.random.default_rng(seed)


def weights(*shape):
    return (random.standard_normal(shape) * 0.05).astype(numpy.float32)


# Every byte is a token, so that any text can be read.
tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
types = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL] + [gguf.TokenType.BYTE] * 256

writer = gguf.GGUFWriter(path, "llama")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(INNER)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_vocab_size(len(tokens))
writer.add_file_type(gguf.LlamaFileType.ALL_F32)
writer.add_tokenizer_model("llama")
writer.add_tokenizer_pre("default")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * len(tokens))
writer.add_token_types(types)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)

writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
writer.add_tensor("output_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
writer.add_tensor("output.weight", weights(len(tokens), WIDTH))
for layer in range(LAYERS):
    block = f"blk.{layer}"
    writer.add_tensor(f"{block}.attn_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    writer.add_tensor(f"{block}.ffn_norm.weight", numpy.ones(WIDTH, dtype=numpy.float32))
    for part in ["attn_q", "attn_k", "attn_v", "attn_output"]:
        writer.add_tensor(f"{block}.{part}.weight", weights(WIDTH, WIDTH))
    writer.add_tensor(f"{block}.ffn_gate.weight", weights(INNER, WIDTH))
    writer.add_tensor(f"{block}.ffn_up.weight", weights(INNER, WIDTH))
    writer.add_tensor(f"{block}.ffn_down.weight", weights(WIDTH, INNER))
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
