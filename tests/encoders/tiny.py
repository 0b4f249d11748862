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
    bpe = Tokenizer(models.BPE(unk_token=unknown))
    bpe.pre_tokenizer = pre_tokenizers.Whitespace()
    bpe.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=200, special_tokens=marks))
    between = f"{last} {last}" if kind == "roberta" else last
    types = ":1" if kind == "bert" else ""
    bpe.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {between} $B{types} {last}{types}",
        special_tokens=[(mark, bpe.token_to_id(mark)) for mark in (first, last)],
    )
    names = {"pad_token": pad, "unk_token": unknown, "cls_token": first, "sep_token": last, "eos_token": last}
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if kind == "bert" else ["input_ids", "attention_mask"]
    fast = PreTrainedTokenizerFast(tokenizer_object=bpe, model_max_length=64, model_input_names=inputs, **names)
    fast.save_pretrained(folder)
    return fast


def backbone(folder: Path, *, kind: str = "bert", labels: int | None = None) -> Path:
    """A text backbone of two layers; with labels, a classifier of pairs."""
    import torch
    import transformers

    fast_tokenizer = tokenizer(folder, kind=kind)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    shape |= {
        "max_position_embeddings": 66,
        "vocab_size": len(fast_tokenizer),
        "pad_token_id": fast_tokenizer.pad_token_id,
    }
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
    """CLIP, SigLIP or SigLIP 2 (NaFlex) of one layer each, with tokenizer and image processor."""
    import torch
    import transformers

    fast_tokenizer = tokenizer(folder, kind="clip")
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
    marks = {
        "eos_token_id": fast_tokenizer.eos_token_id,
        "bos_token_id": fast_tokenizer.cls_token_id,
        "pad_token_id": fast_tokenizer.pad_token_id,
    }
    text = shape | {"vocab_size": len(fast_tokenizer), "max_position_embeddings": 24} | marks
    image = shape | {"image_size": 32, "patch_size": 8}
    torch.manual_seed(3)
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=12)
        model = transformers.CLIPModel(config)
        processor = _processor("CLIP")(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    elif kind == "siglip2":
        patches = shape | {"patch_size": 8, "num_patches": 16}
        model = transformers.Siglip2Model(transformers.Siglip2Config(text_config=text, vision_config=patches))
        processor = _processor("Siglip2")(patch_size=8, max_num_patches=16)
    else:
        config = transformers.SiglipConfig(text_config=text, vision_config=image)
        model = transformers.SiglipModel(config)
        processor = _processor("Siglip")(size={"height": 32, "width": 32})
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def clip_of_another_tokenizer(folder: Path, *, kind: str) -> Path:
    """AltCLIP, Chinese-CLIP or MetaCLIP 2, whose towers of texts are those of XLM-R, BERT and CLIP."""
    import torch
    import transformers

    name, tokens = {"altclip": ("AltCLIP", "roberta"), "chinese_clip": ("ChineseCLIP", "bert"),
                    "metaclip_2": ("MetaClip2", "clip")}[kind]  # fmt: skip
    fast_tokenizer = tokenizer(folder, kind=tokens)
    marks = {"bos_token_id": fast_tokenizer.cls_token_id, "eos_token_id": fast_tokenizer.eos_token_id}
    text = SHAPE | {"vocab_size": len(fast_tokenizer), "pad_token_id": fast_tokenizer.pad_token_id, **marks}
    text |= {"max_position_embeddings": 24, "project_dim": 10}
    image = SHAPE | {"image_size": 32, "patch_size": 8}
    torch.manual_seed(3)
    config = getattr(transformers, f"{name}Config")(text_config=text, vision_config=image, projection_dim=10)
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder)
    sizes = {"height": 32, "width": 32}
    processor = _processor("ChineseCLIP" if kind == "chinese_clip" else "CLIP")
    processor(size=sizes if kind == "chinese_clip" else {"shortest_edge": 32}, crop_size=sizes).save_pretrained(folder)
    return folder


SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
SQUARE = {"height": 16, "width": 16}


def blip(folder: Path, *, kind: str = "blip") -> Path:
    """BLIP or BLIP-2 with a head for image-text matching."""
    import torch
    import transformers

    fast_tokenizer = tokenizer(folder, kind="bert")
    image = SHAPE | {"image_size": 16, "patch_size": 8}
    text = SHAPE | {"vocab_size": len(fast_tokenizer), "encoder_hidden_size": 16, "max_position_embeddings": 64}
    text["pad_token_id"] = fast_tokenizer.pad_token_id
    torch.manual_seed(5)
    if kind == "blip":
        text |= {"bos_token_id": fast_tokenizer.cls_token_id, "sep_token_id": fast_tokenizer.sep_token_id}
        config = transformers.BlipConfig(text_config=text, vision_config=image, projection_dim=8)
        model = transformers.BlipForImageTextRetrieval(config)
    else:
        text |= {"cross_attention_frequency": 1, "use_qformer_text_input": True}
        unused = {"model_type": "opt", "hidden_size": 16, "num_hidden_layers": 1, "vocab_size": len(fast_tokenizer)}
        parts = {"vision_config": image, "qformer_config": text, "text_config": unused}
        config = transformers.Blip2Config(**parts, num_query_tokens=4)
        model = transformers.Blip2ForImageTextRetrieval(config)
    larger(model).save_pretrained(folder)
    _processor("Blip")(size=SQUARE).save_pretrained(folder)
    return folder


def vilt(folder: Path) -> Path:
    """ViLT with its head for retrieval; images are larger than the most patches that its settings allow."""
    import torch
    import transformers

    fast_tokenizer = tokenizer(folder, kind="bert")
    size = {"image_size": 32, "patch_size": 8, "max_position_embeddings": 40, "max_image_length": 4}
    config = transformers.ViltConfig(
        **SHAPE, **size, vocab_size=len(fast_tokenizer), pad_token_id=fast_tokenizer.pad_token_id
    )
    torch.manual_seed(5)
    larger(transformers.ViltForImageAndTextRetrieval(config)).save_pretrained(folder)
    _processor("Vilt")(size={"shortest_edge": 32}, size_divisor=8).save_pretrained(folder)
    return folder


def larger(model):
    """The model with larger weights: those of the usual start make all items alike."""
    import torch

    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.mul_(8)
    return model


def colpali(folder: Path) -> Path:
    """ColPali, a model of late interaction: a vector for every token and patch."""
    import torch
    import transformers

    fast_tokenizer = tokenizer(folder, kind="roberta")
    fast_tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"], "bos_token": "<s>"})
    reading = _processor("Siglip")(size=SQUARE)
    reading.image_seq_length = 4
    image = SHAPE | {"image_size": 16, "patch_size": 8, "projection_dim": 16}
    text = SHAPE | {
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": len(fast_tokenizer),
        "max_position_embeddings": 128,
    }
    text["pad_token_id"] = fast_tokenizer.pad_token_id
    vlm = transformers.PaliGemmaConfig(
        vision_config=transformers.SiglipVisionConfig(**image),
        text_config=transformers.GemmaConfig(**text),
        projection_dim=16,
        hidden_size=16,
        vocab_size=len(fast_tokenizer),
        image_token_index=fast_tokenizer.convert_tokens_to_ids("<image>"),
    )
    torch.manual_seed(5)
    model = transformers.ColPaliForRetrieval(transformers.ColPaliConfig(vlm_config=vlm, embedding_dim=8))
    larger(model).save_pretrained(folder)
    transformers.ColPaliProcessor(image_processor=reading, tokenizer=fast_tokenizer).save_pretrained(folder)
    return folder


TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} {% for c in m['content'] %}{% if c['type'] == 'image' %}<image>"
    "{% else %}{{ c['text'] }}{% endif %}{% endfor %} {% endfor %}"
)


def image_cross_encoder(folder: Path) -> Path:
    """LLaVA that answers yes or no, as a CrossEncoder of sentence-transformers."""
    import torch
    import transformers
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules import LogitScore

    base = folder / "base"
    fast_tokenizer = tokenizer(base, kind="roberta")
    fast_tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    fast_tokenizer.add_tokens(["yes", "no"])
    fast_tokenizer.padding_side = "left"
    vision = transformers.CLIPVisionConfig(**SHAPE, image_size=16, patch_size=8)
    size = {"num_key_value_heads": 2, "vocab_size": len(fast_tokenizer), "max_position_embeddings": 128}
    text = transformers.LlamaConfig(**SHAPE, **size, pad_token_id=fast_tokenizer.pad_token_id)
    image = fast_tokenizer.convert_tokens_to_ids("<image>")
    config = transformers.LlavaConfig(
        vision_config=vision, text_config=text, image_token_index=image, vision_feature_layer=-1
    )
    torch.manual_seed(5)
    larger(transformers.LlavaForConditionalGeneration(config)).save_pretrained(base)
    transformers.LlavaProcessor(
        image_processor=_processor("CLIP")(size={"shortest_edge": 16}, crop_size=SQUARE),
        tokenizer=fast_tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(base)
    answers = LogitScore(*fast_tokenizer.convert_tokens_to_ids(["yes", "no"]))
    modules = [Transformer(str(base), transformer_task="any-to-any"), answers]
    CrossEncoder(modules=modules, device="cpu").save(str(folder / "model"))
    return folder / "model"


def _processor(name: str):
    import transformers

    for suffix in ("ImageProcessorPil", "ImageProcessor"):
        if processor := getattr(transformers, name + suffix, None):
            return processor
    raise AssertionError(name)
