"""Kernels of the book: each is written once here, explained in a chapter, proved by a test.

| chapter           | package           | modules                                                                      |
|-------------------|-------------------|------------------------------------------------------------------------------|
| 2.1.0 Attention   | `lib.attention`   | masks, kernel_regression, dot_product, additive, multi_head, tiled, hopfield |
| 2.1.1 Transformer | `lib.transformer` | positions, rotary, feed_forward, block, stacks, masked_tokens                |
| 2.1.2 GPT         | `lib.gpt`         | config, model, kv_cache, kv_memory, generation, sampling, tokenizer, train,  |
|                   |                   | preferences, scaling_laws, action_tokens                                     |
| 2.1.3 ViT         | `lib.vit`         | patches, model, mae                                                          |
| 2.1.4 Seq2Seq     | `lib.seq2seq`     | recurrent, model, pairs                                                      |
| all               | `lib.data`        | poems, dates, digits, images, curves, tactile, experiments                   |
| all               | `lib.training`    | one training loop                                                            |
| all               | `lib.plots`       | figures                                                                      |
| all               | `lib.tables`      | small tables of numbers under headings                                       |
| all               | `lib.explore`     | explorers: sliders over arrays, live on the page without a kernel            |

A package imports only from those above it; all may use `lib.training` and `lib.checks`. 2.1.3, 2.1.4 and the data do
without 2.1.2.
Import names from the package: `from lib.gpt import MiniGPT`.
"""
