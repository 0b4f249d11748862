"""A CLIP with random weights, written in the format of transformers: for scripts that need a model but no download."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SHAPE = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}


def tiny_clip(
    folder: Path,
    captions: list[str],
    *,
    shape: Mapping[str, int] = SHAPE,
    side: int = 224,
    patch: int = 32,
    max_tokens: int = 77,
    lowercase: bool = True,
    crop: bool = True,
) -> Path:
    """Writes the model.

    Args:
        folder: Where to.
        captions: Their words become the tokens.
        shape: Sizes of both towers; the joint space has as many dimensions as a hidden state.
        side: Images are so many pixels wide and high.
        patch: So are the patches.
        max_tokens: Tokens of a text.
        lowercase: Whether words are made lower case.
        crop: Whether an image is scaled by its short side and cropped; otherwise it is scaled to a square.

    Returns:
        The folder.
    """
    import torch
    import transformers

    vocabulary = word_tokenizer(captions, max_tokens=max_tokens, lowercase=lowercase)
    text = {**shape, "vocab_size": len(vocabulary), "max_position_embeddings": max_tokens}
    text |= {"bos_token_id": 0, "eos_token_id": 1}
    image = {**shape, "image_size": side, "patch_size": patch}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=shape["hidden_size"])
    transformers.CLIPModel(config).save_pretrained(folder)
    processor = getattr(transformers, "CLIPImageProcessorPil", transformers.CLIPImageProcessor)
    square = {"height": side, "width": side}
    resize = (
        {"size": {"shortest_edge": side}, "crop_size": square} if crop else {"size": square, "do_center_crop": False}
    )
    vocabulary.save_pretrained(folder)
    transformers.CLIPProcessor(processor(**resize), vocabulary).save_pretrained(folder)
    return folder


def word_tokenizer(captions: list[str], *, max_tokens: int, lowercase: bool) -> Any:
    """A tokenizer whose tokens are the words of captions, with CLIP's marks around a text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    first, last, unknown = marks = ["<|startoftext|>", "<|endoftext|>", "<unk>"]
    tokenizer = Tokenizer(models.WordLevel(unk_token=unknown))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    if lowercase:
        tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.train_from_iterator(captions, trainers.WordLevelTrainer(special_tokens=marks))
    ends = [(mark, tokenizer.token_to_id(mark)) for mark in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{first} $A {last}", special_tokens=ends)
    names = {"pad_token": last, "unk_token": unknown, "eos_token": last, "bos_token": first}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=max_tokens, **names)
