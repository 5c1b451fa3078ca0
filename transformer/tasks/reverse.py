"""Write the source from its end to its start. Cross-attention has to run backwards: the other diagonal."""

from __future__ import annotations

from transformer.tasks.sequences import sequence_task
from transformer.training_config import TrainingConfig

REVERSE = sequence_task(
    name="reverse",
    rule=lambda ids: ids[::-1],
    examples=("3 1 7 3 10 2", "5 5 5 5", "31 0 31 0 16 8 4", "12 7 28 19 3 30 1 25 14 9", "9"),
    training=TrainingConfig(
        steps=3000, batch_size=64, learning_rate=2.5e-3, warmup_steps=100, label_smoothing=0.1, max_length=20,
        evaluate_every=200, evaluation_size=500, patience=10,
    ),
)
