"""Everyday English into Chinese characters."""

from __future__ import annotations

import torch

from transformer.config import TransformerConfig
from transformer.tasks.base import Preset
from transformer.tasks.translation import translation_task
from transformer.tokenizers import CharacterTokenizer
from transformer.training_config import TrainingConfig

LESSON = (
    ("hello", "你好"),
    ("how are you", "你好吗"),
    ("i love you", "我爱你"),
    ("what is this", "这是什么"),
    ("good morning", "早上好"),
    ("good night", "晚安"),
)

EN_ZH = translation_task(
    "en-zh",
    target="zh",
    file_name="tatoeba_en_zh.tsv",
    tgt_tokenizer_class=CharacterTokenizer,
    fewest=1,
    sacrebleu_tokenizer="zh",
    examples=("Where is the station?", *(english for english, _ in LESSON)),
    lesson=LESSON,
    references=(
        ("Where is the station?", "车站在哪里？"),
        ("I would like a cup of coffee, please.", "请给我一杯咖啡。"),
        ("I would like a cup of coffee.", "我想要一杯咖啡。"),
    ),
    preset=Preset(
        TransformerConfig(4, 4, d_model=192, n_heads=4, d_ff=768, dropout=0.15),
        TrainingConfig(
            steps=4500, batch_size=128, learning_rate=1.5e-3, warmup_steps=500, label_smoothing=0.1, weight_decay=0.01,
            max_length=24, evaluate_every=250, evaluation_size=500, patience=8, judged_by="loss",
        ),
        stored_as=torch.float16,
    ),
)
