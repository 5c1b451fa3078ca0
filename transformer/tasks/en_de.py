"""Everyday English into German words."""

from __future__ import annotations

import torch

from transformer.config import TransformerConfig
from transformer.tasks.base import Preset
from transformer.tasks.translation import translation_task
from transformer.tokenizers import WordTokenizer
from transformer.training_config import TrainingConfig

EN_DE = translation_task(
    "en-de",
    target="de",
    file_name="tatoeba_en_de.tsv",
    tgt_tokenizer_class=WordTokenizer,
    fewest=2,
    sacrebleu_tokenizer="13a",
    examples=("Where is the station?", "I would like a cup of coffee.", "What is this?", "Good night.", "How are you?"),
    lesson=(),
    references=(
        ("Where is the station?", "Wo ist der Bahnhof?"),
        ("I would like a cup of coffee.", "Ich hätte gern eine Tasse Kaffee."),
        ("I would like a cup of coffee, please.", "Ich hätte gern eine Tasse Kaffee, bitte."),
        ("What is this?", "Was ist das?"),
        ("Good night.", "Gute Nacht."),
        ("How are you?", "Wie geht es dir?"),
    ),
    preset=Preset(
        TransformerConfig(4, 4, d_model=192, n_heads=6, d_ff=768, dropout=0.1),
        TrainingConfig(
            steps=4000, batch_size=128, learning_rate=1.5e-3, warmup_steps=500, label_smoothing=0.1, weight_decay=0.01,
            max_length=24, evaluate_every=500, evaluation_size=500, patience=4, judged_by="loss",
        ),
        stored_as=torch.float16,
    ),
)
