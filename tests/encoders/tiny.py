"""Tiny models with random weights, saved in the real formats: what the adapters load is what people have."""

from __future__ import annotations

from pathlib import Path

SENTENCES = (
    "a black dog runs over the green grass",
    "two children play football in the park",
    "ein schwarzer Hund läuft über das grüne Gras",
    "deux enfants jouent au football dans le parc",
    "a man in a red shirt climbs a rock wall",
    "the dog",
)


def tokenizer(folder: Path, *, kind: str):
    """A fast tokenizer, trained on a few sentences: WordPiece with [CLS] and [SEP], or unigram with <s> and </s>."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    marks = {
        "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]"],
        "roberta": ["<s>", "<pad>", "</s>", "<unk>"],
        "clip": ["<|startoftext|>", "<|endoftext|>", "<unk>"],
    }[kind]
    pad, unknown, first, last = {
        "bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]"),
        "roberta": ("<pad>", "<unk>", "<s>", "</s>"),
        "clip": ("<|endoftext|>", "<unk>", "<|startoftext|>", "<|endoftext|>"),
    }[kind]
    made = Tokenizer(models.BPE(unk_token=unknown))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=200, special_tokens=marks))
    between = f"{last} {last}" if kind == "roberta" else last
    types = ":1" if kind == "bert" else ""
    made.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {between} $B{types} {last}{types}",
        special_tokens=[(mark, made.token_to_id(mark)) for mark in (first, last)],
    )
    names = {"pad_token": pad, "unk_token": unknown, "cls_token": first, "sep_token": last, "eos_token": last}
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if kind == "bert" else ["input_ids", "attention_mask"]
    fast = PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=64, model_input_names=inputs, **names)
    fast.save_pretrained(folder)
    return fast


def backbone(folder: Path, *, kind: str = "bert", labels: int | None = None) -> Path:
    """A text backbone of two layers; with labels, a classifier of pairs."""
    import torch
    import transformers

    known = tokenizer(folder, kind=kind)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    shape |= {"max_position_embeddings": 66, "vocab_size": len(known), "pad_token_id": known.pad_token_id}
    names = {"bert": "Bert", "roberta": "XLMRoberta"}
    if labels is not None:
        shape["num_labels"] = labels
    if kind == "bert":
        shape["type_vocab_size"] = 2
    config = getattr(transformers, f"{names[kind]}Config")(**shape)
    torch.manual_seed(7)
    suffix = "Model" if labels is None else "ForSequenceClassification"
    model = getattr(transformers, names[kind] + suffix)(config)
    with torch.no_grad():  # weights of the usual start make all texts alike
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(8)
    model.save_pretrained(folder)
    return folder


def clip(folder: Path, *, kind: str = "clip") -> Path:
    """CLIP or SigLIP of one layer each, with tokenizer and image processor."""
    import torch
    import transformers

    known = tokenizer(folder, kind="clip")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    marks = {"eos_token_id": known.eos_token_id, "bos_token_id": known.cls_token_id, "pad_token_id": known.pad_token_id}
    text = shape | {"vocab_size": len(known), "max_position_embeddings": 24} | marks
    image = shape | {"image_size": 32, "patch_size": 8}
    torch.manual_seed(3)
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=12)
        model = transformers.CLIPModel(config)
        processor = _processor("CLIP")(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    else:
        config = transformers.SiglipConfig(text_config=text, vision_config=image)
        model = transformers.SiglipModel(config)
        processor = _processor("Siglip")(size={"height": 32, "width": 32})
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _processor(name: str):
    import transformers

    for suffix in ("ImageProcessorPil", "ImageProcessor"):
        if found := getattr(transformers, name + suffix, None):
            return found
    raise AssertionError(name)
