"""LoRA lifts a pretrained model: a small CLIP, pretrained on one world of `scenes` and tuned on others, three seeds.

CLIP of two layers per tower begins with random weights, is trained whole on scenes of seed 1 and written as a folder of
transformers: the pretrained model. On each of three other worlds low-rank additions (rank 8) are trained on the
training split. R@1 on the held-out test split before and after, both directions; intervals are of the paired
difference, clustered by image. Needs transformers and peft; about a minute on a CPU.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner import Collection, Report, compare, evaluate, load, train
from limner.encoders import encoder

IMAGES, PRETRAINING, WORLDS = 240, 1, (11, 12, 13)
SIDE = 48
BOTH = {"loss": "sum", "batch_size": 64, "device": "cpu"}
FIRST = {"mode": "full", "learning_rate": 1e-3, "epochs": 20, **BOTH}
SECOND = {"mode": "lora", "rank": 8, "learning_rate": 3e-3, "epochs": 12, **BOTH}


def untrained(folder: Path, captions: list[str]) -> Path:
    """CLIP with random weights, in the format of transformers: words as tokens, images of 48 x 48 pixels."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    marks = ["<|startoftext|>", "<|endoftext|>", "<unk>"]
    made = Tokenizer(models.WordLevel(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.train_from_iterator(captions, trainers.WordLevelTrainer(special_tokens=marks))
    ends = [(mark, made.token_to_id(mark)) for mark in marks[:2]]
    made.post_processor = processors.TemplateProcessing(single=f"{marks[0]} $A {marks[1]}", special_tokens=ends)
    names = {"pad_token": marks[1], "unk_token": marks[2], "eos_token": marks[1], "bos_token": marks[0]}
    known = transformers.PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=32, **names)
    known.save_pretrained(folder)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    text = shape | {"vocab_size": len(known), "max_position_embeddings": 32, "bos_token_id": 0, "eos_token_id": 1}
    image = shape | {"image_size": SIDE, "patch_size": 8}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=image, projection_dim=64)
    transformers.CLIPModel(config).save_pretrained(folder)
    processor = getattr(transformers, "CLIPImageProcessorPil", transformers.CLIPImageProcessor)
    size = {"size": {"height": SIDE, "width": SIDE}, "do_center_crop": False}
    processor(**size).save_pretrained(folder)
    return folder


def measured(model: object, test: Collection, name: str) -> Report:
    """The report of a model or encoder on held-out images."""
    return evaluate(model, test, measures="R@1", name=name)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Pretrains, then tunes on each world."""
    import torch

    torch.set_num_threads(1)  # small matrices
    images, worlds = (120, WORLDS[:1]) if options.quick else (IMAGES, WORLDS)
    with tempfile.TemporaryDirectory() as place:
        pretraining = load("scenes", images=images, seed=PRETRAINING)
        begun = untrained(Path(place) / "untrained", list(pretraining.texts.values))
        pretrained = Path(place) / "pretrained"
        train(pretraining, "finetune", encoder=f"clip(model={begun})", export_dir=str(pretrained), **FIRST)
        for seed in worlds:
            yield from lifted(f"clip(model={pretrained})", load("scenes", images=images, seed=seed), seed)


def lifted(name: str, world: Collection, seed: int) -> Iterator[Claim]:
    """R@1 on the test split before and after LoRA."""
    tuned = train(world, "finetune", encoder=name, seed=seed, **SECOND)
    reports = measured(tuned, world.test, "lora"), measured(encoder(name, device="cpu"), world.test, "pretrained")
    compared = compare(list(reports))
    for direction, title in (("i2t", "image → text"), ("t2i", "text → image")):
        after, before = (100 * report.value("R@1", direction=direction, view="pairs") for report in reports)
        found = compared.line("R@1", direction=direction, view="pairs").between(0, 1)
        low, high = (100 * bound for bound in (found.interval.low, found.interval.high))
        note = f"{before:.1f} before; difference {after - before:+.1f} points, 95% interval {low:+.1f} to {high:+.1f}"
        log(f"world {seed}, {title}: {before:.1f} -> {after:.1f}; {note}")
        yield Claim(f"{title} R@1 gain of LoRA on world {seed}, lower end, points", low, goal="> 0", note=note)


if __name__ == "__main__":
    main(run, __doc__)
