"""The encoder-decoder Transformer of "Attention Is All You Need" (Vaswani et al., 2017), in the paper's order.

Read this file from top to bottom: attention, feed-forward, positions, layers, stacks, the whole network.
Training, decoding and drawing live elsewhere. Every value worth seeing passes through a hook point
(``hooks.py``), so nothing here needs a flag to be looked into.

Shape legend: B batch, S source length, T target length, D d_model, H heads, K d_head, F d_ff, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import TransformerConfig
from transformer.hooks import HookPoint, name_hook_points
from transformer.masks import Masks, make_masks


class KeyValueCache:
    """Keys and values of one attention, kept from one decoding step to the next.

    Self-attention ``grows``: each step adds the keys and values of the new tokens. Cross-attention does not:
    the memory never changes, so its keys and values are computed once.
    """

    def __init__(self, grows: bool, capacity: int) -> None:
        self.grows = grows
        self.capacity = capacity
        self.length = 0
        self._keys: Tensor | None = None  # [B, H, capacity, K]
        self._values: Tensor | None = None
        self._flat: tuple[Tensor, Tensor] | None = None  # both as [B*H, capacity, K], the same memory

    def keys_values(self, attention: Attention, context: Tensor) -> tuple[Tensor, Tensor]:
        """Every key and value so far [B, H, length, K], those of ``context`` [B, T, D] included."""
        if self.grows or self._keys is None:
            self.append(*attention.keys_values(context))
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def flat(self) -> tuple[Tensor, Tensor]:
        """Every key and value so far, rows and heads on one axis: [B*H, length, K] each."""
        keys, values = self._flat
        if not self.grows:
            return keys, values
        return keys.narrow(1, 0, self.length), values.narrow(1, 0, self.length)

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in this order and as often as named: [B] ids of rows -> new batch."""
        if self._keys is not None:
            self._keep(self._keys[rows], self._values[rows])

    def append(self, keys: Tensor, values: Tensor) -> None:
        """Add keys and values of new tokens [B, H, T, K] after those there are."""
        if self._keys is None:
            capacity = self.capacity if self.grows else keys.shape[2]
            shape = (keys.shape[0], keys.shape[1], capacity, keys.shape[3])
            self._keep(keys.new_empty(shape), values.new_empty(shape))
        n_new = keys.shape[2]
        self._keys.narrow(2, self.length, n_new).copy_(keys)
        self._values.narrow(2, self.length, n_new).copy_(values)
        self.length += n_new

    def _keep(self, keys: Tensor, values: Tensor) -> None:
        self._keys, self._values = keys, values
        self._flat = keys.flatten(0, 1), values.flatten(0, 1)


class Attention(nn.Module):
    """Multi-head scaled dot-product attention (paper, section 3.2).

    One class, used three times: ``context=x`` is self-attention, ``context=memory`` is cross-attention.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.hook_q, self.hook_k, self.hook_v = HookPoint(), HookPoint(), HookPoint()
        self.hook_raw_scores = HookPoint()
        self.hook_scaled_scores = HookPoint()
        self.hook_attn_scores = HookPoint()
        self.hook_pattern = HookPoint()
        self.hook_z = HookPoint()

    def split_heads(self, projected: Tensor) -> Tensor:
        """[B, T, D] -> [B, H, T, K]: each head gets its own K of the D columns."""
        return projected.unflatten(-1, (self.n_heads, self.d_head)).transpose(1, 2)

    def keys_values(self, context: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of ``context`` [B, S, D], each [B, H, S, K]."""
        k = self.hook_k(self.split_heads(self.k_proj(context)))
        v = self.hook_v(self.split_heads(self.v_proj(context)))
        return k, v

    def forward(
        self, x: Tensor, context: Tensor, mask: Tensor | None = None, cache: KeyValueCache | None = None
    ) -> Tensor:
        """Let every position of ``x`` [B, T, D] gather from ``context`` [B, S, D] -> [B, T, D].

        ``mask`` broadcasts to [B, H, T, S], True = may attend. A row that may attend to nothing gets zeros.
        """
        q = self.hook_q(self.split_heads(self.q_proj(x)))  # [B, H, T, K]
        k, v = cache.keys_values(self, context) if cache else self.keys_values(context)  # [B, H, S, K]
        raw_scores = self.hook_raw_scores(q @ k.transpose(-2, -1))  # [B, H, T, S]
        scaled_scores = self.hook_scaled_scores(raw_scores * (1 / math.sqrt(self.d_head)))
        # At least float32: half precision would lose the small weights.
        softmax_dtype = torch.promote_types(scaled_scores.dtype, torch.float32)
        if mask is None:
            scores = self.hook_attn_scores(scaled_scores)
            weights = scores.softmax(dim=-1, dtype=softmax_dtype)
        else:
            hidden = ~mask
            scores = self.hook_attn_scores(scaled_scores.masked_fill(hidden, -math.inf))
            # The second fill only matters in a row that sees nothing: softmax of -inf alone is NaN, its weights are 0.
            weights = scores.softmax(dim=-1, dtype=softmax_dtype).masked_fill(hidden, 0.0)
        pattern = self.hook_pattern(weights.to(v.dtype))  # [B, H, T, S], before dropout: rows sum to 1
        z = self.hook_z(self.dropout(pattern) @ v)  # [B, H, T, K]
        return self.out_proj(z.transpose(1, 2).flatten(-2))  # [B, T, D]


class FeedForward(nn.Module):
    """The same two-layer network at every position: max(0, x W1 + b1) W2 + b2 (paper, section 3.3)."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.up_proj = nn.Linear(d_model, d_ff)
        self.down_proj = nn.Linear(d_ff, d_model)
        self.hook_hidden = HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        hidden = self.hook_hidden(F.relu(self.up_proj(x)))  # [B, T, F]
        return self.down_proj(hidden)


def sinusoidal_encoding(max_len: int, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same) -> [max_len, D] (paper, section 3.5).

    An odd D simply ends on a sine.
    """
    position = torch.arange(max_len, dtype=torch.float64)[:, None]
    frequency = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    encoding = torch.zeros(max_len, d_model, dtype=torch.float64)
    encoding[:, 0::2] = torch.sin(position * frequency)
    encoding[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
    return encoding.to(torch.get_default_dtype())


class InputEmbedding(nn.Module):
    """Token ids to vectors: embedding * sqrt(D) plus the position (paper, sections 3.4 and 3.5)."""

    def __init__(
        self, vocab_size: int, d_model: int, max_len: int, positional_encoding: str = "sinusoidal", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.max_len = max_len
        self.tokens = nn.Embedding(vocab_size, d_model)
        if positional_encoding == "learned":
            self.positions = nn.Parameter(torch.zeros(max_len, d_model))
        else:
            fixed = (
                sinusoidal_encoding(max_len, d_model)
                if positional_encoding == "sinusoidal"
                else torch.zeros(max_len, d_model)
            )
            self.register_buffer("positions", fixed, persistent=False)
        self.dropout = nn.Dropout(dropout)
        self.hook_embed, self.hook_pos_embed = HookPoint(), HookPoint()

    def forward(self, token_ids: Tensor, start: int = 0) -> Tensor:
        """``token_ids`` [B, T], the first of which stands at position ``start`` -> [B, T, D].

        Raises ValueError when a position lies past max_len.
        """
        end = start + token_ids.shape[1]
        self.check_length(end)
        embed = self.hook_embed(self.tokens(token_ids) * self.scale)
        pos_embed = self.hook_pos_embed(self.positions[start:end])
        return self.dropout(embed + pos_embed)

    def check_length(self, length: int) -> None:
        """Raise ValueError when there are not as many positions."""
        if length > self.max_len:
            raise ValueError(f"the model has positions for {self.max_len} tokens, got {length}")


class LayerNorm(nn.LayerNorm):
    """Every position by itself to mean 0 and variance 1, then a learnt gain and bias (Ba et al., 2016)."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.hook_norm_in, self.hook_norm_out = HookPoint(), HookPoint()

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, D]"""
        return self.hook_norm_out(super().forward(self.hook_norm_in(x)))


class Layer(nn.Module):
    """What both kinds of layer share: where the norm of a sub-layer stands."""

    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.norm_first = norm_first

    def before(self, norm: LayerNorm, x: Tensor) -> Tensor:
        """What a sub-layer reads: pre-LN normalises here."""
        return norm(x) if self.norm_first else x

    def after(self, norm: LayerNorm, x: Tensor) -> Tensor:
        """What the residual sum becomes: post-LN (the paper's LayerNorm(x + Sublayer(x))) normalises here."""
        return x if self.norm_first else norm(x)


class EncoderLayer(Layer):
    """Self-attention, then feed-forward, each added to the residual stream (paper, section 3.1)."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__(norm_first)
        self.self_attn = Attention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attn_norm, self.mlp_norm = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.hook_resid_pre, self.hook_resid_mid, self.hook_resid_post = HookPoint(), HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_mlp_out = HookPoint(), HookPoint()

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """``x`` [B, S, D], ``src_mask`` [B, 1, 1, S] -> [B, S, D]"""
        resid_pre = self.hook_resid_pre(x)
        attn_in = self.before(self.attn_norm, resid_pre)
        attn_out = self.hook_attn_out(self.dropout(self.self_attn(attn_in, attn_in, src_mask)))
        resid_mid = self.hook_resid_mid(self.after(self.attn_norm, resid_pre + attn_out))
        mlp_in = self.before(self.mlp_norm, resid_mid)
        mlp_out = self.hook_mlp_out(self.dropout(self.feed_forward(mlp_in)))
        return self.hook_resid_post(self.after(self.mlp_norm, resid_mid + mlp_out))


class DecoderLayer(Layer):
    """Masked self-attention, cross-attention over the memory, then feed-forward (paper, section 3.1)."""

    def __init__(self, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True) -> None:
        super().__init__(norm_first)
        self.self_attn = Attention(d_model, n_heads, dropout)
        self.cross_attn = Attention(d_model, n_heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.attn_norm, self.cross_norm = LayerNorm(d_model), LayerNorm(d_model)
        self.mlp_norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.hook_resid_pre, self.hook_resid_mid = HookPoint(), HookPoint()
        self.hook_resid_mid_cross, self.hook_resid_post = HookPoint(), HookPoint()
        self.hook_attn_out, self.hook_cross_attn_out, self.hook_mlp_out = HookPoint(), HookPoint(), HookPoint()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[KeyValueCache, KeyValueCache] | None = None,
    ) -> Tensor:
        """``x`` [B, T, D], ``memory`` [B, S, D], masks [B, 1, T, T] and [B, 1, 1, S] -> [B, T, D]"""
        self_cache, cross_cache = cache or (None, None)
        resid_pre = self.hook_resid_pre(x)
        attn_in = self.before(self.attn_norm, resid_pre)
        attn_out = self.hook_attn_out(self.dropout(self.self_attn(attn_in, attn_in, tgt_mask, self_cache)))
        resid_mid = self.hook_resid_mid(self.after(self.attn_norm, resid_pre + attn_out))
        cross_in = self.before(self.cross_norm, resid_mid)
        cross_attn_out = self.dropout(self.cross_attn(cross_in, memory, memory_mask, cross_cache))
        cross_attn_out = self.hook_cross_attn_out(cross_attn_out)
        resid_mid_cross = self.hook_resid_mid_cross(self.after(self.cross_norm, resid_mid + cross_attn_out))
        mlp_in = self.before(self.mlp_norm, resid_mid_cross)
        mlp_out = self.hook_mlp_out(self.dropout(self.feed_forward(mlp_in)))
        return self.hook_resid_post(self.after(self.mlp_norm, resid_mid_cross + mlp_out))


class Encoder(nn.Module):
    """A stack of encoder layers; pre-LN needs one more norm at its end."""

    def __init__(
        self, n_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, n_heads, d_ff, dropout, norm_first) for _ in range(n_layers)
        )
        self.final_norm = LayerNorm(d_model) if norm_first else nn.Identity()
        self.hook_out = HookPoint()

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """[B, S, D] -> memory [B, S, D]"""
        for layer in self.layers:
            x = layer(x, src_mask)
        return self.hook_out(self.final_norm(x))


class Decoder(nn.Module):
    """A stack of decoder layers; pre-LN needs one more norm at its end."""

    def __init__(
        self, n_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.0, norm_first: bool = True
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, n_heads, d_ff, dropout, norm_first) for _ in range(n_layers)
        )
        self.final_norm = LayerNorm(d_model) if norm_first else nn.Identity()
        self.hook_out = HookPoint()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: list[tuple[KeyValueCache, KeyValueCache]] | None = None,
    ) -> Tensor:
        """[B, T, D] and memory [B, S, D] -> [B, T, D]"""
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, tgt_mask, memory_mask, cache[i] if cache else None)
        return self.hook_out(self.final_norm(x))


class Transformer(nn.Module):
    """Source and target tokens in, logits of each next target token out (paper, figure 1)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        sizes = (config.d_model, config.n_heads, config.d_ff, config.dropout, config.norm_first)
        positions = (config.max_len, config.positional_encoding, config.dropout)
        self.src_embedding = InputEmbedding(config.src_vocab_size, config.d_model, *positions)
        self.tgt_embedding = InputEmbedding(config.tgt_vocab_size, config.d_model, *positions)
        self.encoder = Encoder(config.n_encoder_layers, *sizes)
        self.decoder = Decoder(config.n_decoder_layers, *sizes)
        self.unembed = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        self.hook_logits = HookPoint()
        if config.tie_output:
            self.unembed.weight = self.tgt_embedding.tokens.weight
        name_hook_points(self)

    @torch.no_grad()
    def initialize(self, generator: torch.Generator) -> Transformer:
        """Draw fresh weights from ``generator`` and return self.

        Xavier for matrices (Glorot and Bengio, 2010); biases 0, norms 1. Embeddings are tables, not matrices:
        they get a standard deviation of 1/sqrt(D), so that scaling by sqrt(D) brings them to 1.
        """
        for name, parameter in self.named_parameters():
            if name.endswith(("tokens.weight", "positions")):
                nn.init.normal_(parameter, std=self.config.d_model**-0.5, generator=generator)
            elif parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter, generator=generator)
            elif name.endswith("norm.weight"):
                nn.init.ones_(parameter)
            else:
                nn.init.zeros_(parameter)
        return self

    def new_cache(self) -> list[tuple[KeyValueCache, KeyValueCache]]:
        """An empty cache for ``decode``: one (self-attention, cross-attention) pair a decoder layer."""
        capacity = self.config.max_len
        return [(KeyValueCache(True, capacity), KeyValueCache(False, capacity)) for _ in self.decoder.layers]

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """``src`` [B, S] -> memory [B, S, D]"""
        return self.encoder(self.src_embedding(src), src_mask)

    def decode(
        self,
        tgt_in: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: list[tuple[KeyValueCache, KeyValueCache]] | None = None,
    ) -> Tensor:
        """``tgt_in`` [B, T] and memory [B, S, D] -> logits [B, T, V].

        With a cache, ``tgt_in`` holds only the tokens that are new since the last call.
        """
        start = cache[0][0].length if cache else 0
        decoded = self.decoder(self.tgt_embedding(tgt_in, start), memory, tgt_mask, memory_mask, cache)
        return self.hook_logits(self.unembed(decoded))

    def forward(self, src: Tensor, tgt_in: Tensor, masks: Masks | None = None) -> Tensor:
        """``src`` [B, S], ``tgt_in`` [B, T] -> logits [B, T, V]. Without ``masks``, the usual ones are made."""
        src_mask, tgt_mask, memory_mask = masks or make_masks(src, tgt_in, self.config.pad_id)
        return self.decode(tgt_in, self.encode(src, src_mask), tgt_mask, memory_mask)
