"""Model folders that name code: what an attacker changes in a good one so that a library without a guard runs it.

`canary` is a module that leaves a mark when it is imported, and `pickled()` an object that leaves one when it is read.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

Change = Callable[[Path], None]
"""What is done to a good folder."""

KERNEL = "stranger/kernel"
SURROGATE = '"x": "\\ud800"'
DEEP = '"x": ' + "[" * 150 + "]" * 150
DIGITS = '"x": ' + "9" * 5000
LEGACY = {"_use_new_zipfile_serialization": False}


class Pickled:
    """Imports the canary when it is unpickled."""

    def __reduce__(self):
        return (importlib.import_module, ("canary",))


def weights(file: Path, content: object = None, **options: object) -> None:
    import torch

    torch.save(Pickled() if content is None else content, file, **options)


def merged(name: str, **entries: object) -> Change:
    """Adds entries to a JSON file."""

    def change(folder: Path) -> None:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**before, **entries}))

    return change


def raw(name: str, entry: str) -> Change:
    """Puts text after the opening bracket of a JSON file, as no writer of JSON would."""

    def change(folder: Path) -> None:
        file = folder / name
        text = file.read_text()
        start = text.index("{") + 1
        file.write_text(text[:start] + entry + ", " + text[start:])

    return change


def module(kind: object, path: str = "2_Part", *, first: bool = False) -> Change:
    """Adds a module to those of sentence-transformers."""

    def change(folder: Path) -> None:
        modules = json.loads((folder / "modules.json").read_text())
        part = {"idx": 2, "name": "2", "path": path, "type": kind}
        (folder / "modules.json").write_text(json.dumps([part, *modules] if first else [*modules, part]))
        if isinstance(path, str) and not os.path.isabs(path) and "\0" not in path:
            (folder / path).mkdir(parents=True, exist_ok=True)

    return change


def written(name: str, content: str | bytes) -> Change:
    """Writes a file."""

    def change(folder: Path) -> None:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    return change


def pickle(name: str, **options: object) -> Change:
    """Writes an object that runs code when it is read, and takes the safe weights away."""

    def change(folder: Path) -> None:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        weights(file, **options)
        (folder / "model.safetensors").unlink(missing_ok=True)

    return change


def several(*changes: Change) -> Change:
    def change(folder: Path) -> None:
        for each in changes:
            each(folder)

    return change


def linked(name: str) -> Change:
    """Moves a file or folder out of the model's folder, and leaves a link."""

    def change(folder: Path) -> None:
        outside = folder.with_name("outside")
        outside.mkdir()
        shutil.move(folder / name, outside / Path(name).name)
        (folder / name).symlink_to(outside / Path(name).name)

    return change


def outside(kind: str) -> Change:
    """A module in another folder, given by a relative or an absolute path."""

    def change(folder: Path) -> None:
        outside = folder.with_name("outside")
        outside.mkdir()
        (outside / "config.json").write_text(json.dumps({"in_features": 32, "out_features": 4, **DENSE}))
        path = "../outside" if kind == "relative" else str(outside)
        module("sentence_transformers.models.Dense", path)(folder)

    return change


def key_twice(folder: Path) -> None:
    """Names one key twice: the last one counts."""
    text = (folder / "modules.json").read_text()
    (folder / "modules.json").write_text(text.replace('"type":', '"type": "canary.Encoder", "type":', 1))
    modules = (folder / "modules.json").read_text()
    good, bad = '"type": "canary.Encoder", "type": ', '"type": '
    first, _, last = modules.partition(good)
    kind, _, end = last.partition("}")
    (folder / "modules.json").write_text(f'{first}{bad}{kind}, "type": "canary.Encoder"}}{end}')


def as_dict(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    foreign = {"idx": 2, "name": "2", "path": "", "type": "canary.Encoder"}
    (folder / "modules.json").write_text(json.dumps({str(n): m for n, m in enumerate([*modules, foreign])}))


def encoded(name: str, encoding: str, change: Change) -> Change:
    """Writes a JSON file in another encoding."""

    def changed(folder: Path) -> None:
        change(folder)
        (folder / name).write_bytes((folder / name).read_text().encode(encoding))

    return changed


def pipe(name: str) -> Change:
    def change(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return change


def torchscript(folder: Path) -> None:
    import zipfile

    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w") as archive:
        archive.writestr("archive/constants.pkl", b"\x80\x02cos\nsystem\n.")
        archive.writestr("archive/data.pkl", b"\x80\x02cos\nsystem\n.")
        archive.writestr("archive/version", b"3\n")


def deflated(folder: Path) -> None:
    """Weights of a few kB whose pickle takes 64 MB."""
    import zipfile

    weights(folder / "plain.bin", content={"a": 1})
    with zipfile.ZipFile(folder / "plain.bin") as plain, zipfile.ZipFile(folder / "pytorch_model.bin", "w") as packed:
        for name in plain.namelist():
            content = plain.read(name) + (b"\0" * 64_000_000 if name.endswith("data.pkl") else b"")
            packed.writestr(name, content, zipfile.ZIP_DEFLATED)
    (folder / "plain.bin").unlink()
    (folder / "model.safetensors").unlink()


def looped(name: str) -> Change:
    """Replaces a file by a link to itself."""

    def change(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(name)

    return change


def linked_folder(folder: Path) -> None:
    """Adds a folder that is elsewhere."""
    (folder.parent / "outside").mkdir()
    (folder / "1_Part").symlink_to("../outside")


def cased(name: str, change: Change) -> Change:
    """Makes a change, and writes the name in capitals, which some file systems read as the same."""

    def changed(folder: Path) -> None:
        change(folder)
        (folder / name).rename(folder / name.upper())

    return changed


DENSE = {"activation_function": "canary.Encoder", "bias": True}
OWN = {"auto_map": {"AutoConfig": "own.C", "AutoModel": "own.M", "AutoTokenizer": ["own.T", None]}}
CODE = written("own.py", "import canary\nfrom canary import Encoder as C, Encoder as M, Encoder as T\n")
FOREIGN = module("canary.Encoder")
WEIGHTS_ONLY = {"weights_only": False, "use_safetensors": False}
ROUTES = {"types": {"q": "canary.Encoder"}, "structure": {"query": ["q"]}, "parameters": {"default_route": "query"}}
JOBLIB = {**ROUTES, "types": {"q.pkl": "sklearn.utils.parallel.joblib"}, "structure": {"query": ["q.pkl"]}}
OCR = {"image_processor_type": "LayoutLMv2ImageProcessor", "apply_ocr": True, "tesseract_config": "-c debug_file=mark"}
ADAPTER = {"peft_type": "LORA", "base_model_name_or_path": "stranger/base", "target_modules": ["query"], "r": 2}
MEGATRON = {"megatron_config": {"num_layers": 1}, "megatron_core": "canary"}
AUTO = {"auto_mapping": {"parent_library": "canary", "base_model_class": "Encoder"}}
SHARDS = "pytorch_model.bin.index.json"


def dense(**entries: object) -> Change:
    config = {"in_features": 32, "out_features": 4, "bias": True, **entries}
    return several(module("sentence_transformers.models.Dense"), merged("2_Part/config.json", **config))


def kernel(**entries: object) -> Change:
    return merged("config.json", **entries)


SENTENCES: dict[str, Change] = {
    "a foreign module": FOREIGN,
    "a foreign module first": module("canary.Encoder", "", first=True),
    "a foreign module, lone surrogate": several(FOREIGN, raw("modules.json", SURROGATE)),
    "a foreign module, surrogate as a key": several(FOREIGN, raw("modules.json", '"\\udfff": 1')),
    "a foreign module, 150 nested lists": several(FOREIGN, raw("modules.json", DEEP)),
    "a foreign module, 5,000 digits": several(FOREIGN, raw("modules.json", DIGITS)),
    "a foreign module, NaN": several(FOREIGN, raw("modules.json", '"x": NaN, "y": -Infinity')),
    "a foreign module, byte order mark": encoded("modules.json", "utf-8-sig", FOREIGN),
    "a foreign module, UTF-16": encoded("modules.json", "utf-16", FOREIGN),
    "a foreign module, escaped": several(FOREIGN, raw("modules.json", '"type": "\\u0063anary.Encoder"')),
    "a foreign module, key twice": key_twice,
    "a foreign module, not in a list": as_dict,
    "a foreign module, name in a list": module(["canary.Encoder"]),
    "a module of a repository": module("stranger/repo--canary.Encoder"),
    "a module beside the model": several(module("own.M", ""), CODE),
    "a prefix that only looks right": module("sentence_transformersx.canary.Encoder"),
    "something of the library that is no module": module("sentence_transformers.util.import_from_string"),
    "a router": several(module("sentence_transformers.models.Router"), merged("2_Part/router_config.json", **ROUTES)),
    "a router, new name": several(
        module("sentence_transformers.base.modules.router.Router"), merged("2_Part/router_config.json", **ROUTES)
    ),
    "a router, old name": several(module("sentence_transformers.models.Asym"), merged("2_Part/config.json", **ROUTES)),
    "a router of another library's reader of pickles": several(
        module("sentence_transformers.models.Router"),
        merged("2_Part/router_config.json", **JOBLIB),
        written("2_Part/q.pkl", b"\x80\x04cimportlib\nimport_module\n(Vcanary\ntR."),
    ),
    "word vectors with their own tokenizer": several(
        module("sentence_transformers.models.WordEmbeddings"),
        merged("2_Part/wordembedding_config.json", tokenizer_class="canary.Encoder", update_embeddings=False),
    ),
    "a foreign function": dense(activation_function="canary.Encoder"),
    "a foreign function, surrogate": several(dense(**DENSE), raw("2_Part/config.json", SURROGATE)),
    "a foreign function, nested": several(dense(**DENSE), raw("2_Part/config.json", DEEP)),
    "a function of torch that writes": dense(activation_function="torch.utils.tensorboard.SummaryWriter"),
    "a function of torch that is none": dense(activation_function="torch.hub.load"),
    "a foreign function two folders down": several(
        module("sentence_transformers.models.Dense", "a/b"), merged("a/b/config.json", in_features=32, **DENSE)
    ),
    "a part with a pickle": several(
        dense(activation_function="torch.nn.modules.linear.Identity"), pickle("2_Part/pytorch_model.bin")
    ),
    "a module in a folder beside": outside("relative"),
    "a module in an absolute folder": outside("absolute"),
    "options that trust": several(
        merged("sentence_bert_config.json", model_args={"trust_remote_code": True}), merged("config.json", **OWN), CODE
    ),
    "options that unpickle": several(
        merged("sentence_bert_config.json", model_args=WEIGHTS_ONLY), pickle("pytorch_model.bin")
    ),
    "options that unpickle, new name": several(
        merged("sentence_bert_config.json", model_kwargs=WEIGHTS_ONLY), pickle("pytorch_model.bin")
    ),
    "options that unpickle beside safe weights": several(
        merged("sentence_bert_config.json", model_args=WEIGHTS_ONLY),
        lambda folder: weights(folder / "pytorch_model.bin"),
    ),
    "options that unpickle, surrogate": several(
        merged("sentence_bert_config.json", model_args=WEIGHTS_ONLY),
        raw("sentence_bert_config.json", SURROGATE),
        pickle("pytorch_model.bin"),
    ),
    "options in a file of an old name": several(
        lambda folder: (folder / "sentence_bert_config.json").unlink(missing_ok=True),
        merged("sentence_roberta_config.json", max_seq_length=32, model_args=WEIGHTS_ONLY),
        pickle("pytorch_model.bin"),
    ),
    "options of the tokenizer": several(
        merged("sentence_bert_config.json", tokenizer_args={"trust_remote_code": True}),
        merged("tokenizer_config.json", **OWN),
        CODE,
    ),
    "options of the configuration": several(
        merged("sentence_bert_config.json", config_args={"trust_remote_code": True}), merged("config.json", **OWN), CODE
    ),
    "options that name a kernel": merged("sentence_bert_config.json", model_args={"attn_implementation": KERNEL}),
    "options that name another folder": merged("sentence_bert_config.json", model_args={"subfolder": "../outside"}),
    "options that name an adapter": merged("sentence_bert_config.json", model_args={"adapter_kwargs": {"a": 1}}),
    "options that name another format": merged("sentence_bert_config.json", model_args={"gguf_file": "x.gguf"}),
    "a method that is no reader": merged(
        "sentence_bert_config.json", modality_config={"text": {"method": "save_pretrained", "method_output_name": None}}
    ),
    "a module in a folder with a null character": module("sentence_transformers.models.Pooling", "a\0b"),
    "a module in a folder that is a number": module("sentence_transformers.models.Pooling", 7),
    "a list of modules that is deep": written("modules.json", "[" * 90 + "]" * 90),
    "an adapter of a part": merged("0_Transformer/adapter_config.json", **ADAPTER),
}
"""By name: changes to a folder of sentence-transformers."""

BACKBONE: dict[str, Change] = {
    "code beside the model": several(merged("config.json", model_type="strange", **OWN), CODE),
    "code beside a model of a known kind": several(merged("config.json", **OWN), CODE),
    "code in a repository": merged("config.json", auto_map={"AutoModel": "stranger/repo--own.M"}),
    "code of a part": merged("config.json", text_config=OWN),
    "code beside the model, surrogate": several(
        merged("config.json", model_type="strange", **OWN), raw("config.json", SURROGATE), CODE
    ),
    "code beside the model, nested": several(merged("config.json", **OWN), raw("config.json", DEEP), CODE),
    "trust in the configuration": merged("config.json", trust_remote_code=True),
    "pipelines": several(merged("config.json", custom_pipelines={"x": {"impl": "own.M"}}), CODE),
    "a kernel": kernel(attn_implementation=KERNEL),
    "a kernel, underscore": kernel(_attn_implementation=KERNEL),
    "a kernel, internal": kernel(_attn_implementation_internal=KERNEL),
    "a kernel, surrogate": several(kernel(attn_implementation=KERNEL), raw("config.json", SURROGATE)),
    "a kernel, nested lists": several(kernel(attn_implementation=KERNEL), raw("config.json", DEEP)),
    "a kernel, by part": kernel(attn_implementation={"": KERNEL}),
    "a kernel, of a part": kernel(text_config={"attn_implementation": KERNEL}),
    "a kernel, paged": kernel(attn_implementation=f"paged|{KERNEL}"),
    "a kernel, of experts": kernel(experts_implementation=KERNEL),
    "a kernel, of a layer": kernel(kernel_config={"RMSNorm": "stranger/kernel:RMSNorm"}),
    "quantised weights": kernel(quantization_config={"quant_method": "mxfp4"}),
    "quantised weights, own module": kernel(quantization_config={"quant_method": "quark", "module": "canary"}),
    "a model of timm on the hub": kernel(model_type="timm_wrapper", architecture="hf_hub:stranger/model"),
    "a model of timm in a folder": kernel(model_type="timm_wrapper", architecture="local-dir:/tmp/model"),
    "a backbone on the hub": kernel(model_type="dpt", backbone="stranger/model", use_pretrained_backbone=True),
    "a backbone in a folder": kernel(model_type="dpt", backbone="../outside", use_pretrained_backbone=True),
    "weights in another folder": kernel(transformers_weights="../outside/pytorch_model.bin"),
    "a configuration in UTF-16": encoded("config.json", "utf-16", kernel(attn_implementation=KERNEL)),
    "a configuration that is none": written("config.json", "{"),
    "code of a tokenizer": several(merged("tokenizer_config.json", **OWN), CODE),
    "code of a tokenizer, surrogate": several(
        merged("tokenizer_config.json", **OWN), raw("tokenizer_config.json", SURROGATE), CODE
    ),
    "a foreign tokenizer": merged("tokenizer_config.json", tokenizer_class="canary.Encoder"),
    "a tokenizer that is a model": merged("tokenizer_config.json", tokenizer_class="AutoModel"),
    "a tokenizer that unpickles": several(
        merged("tokenizer_config.json", tokenizer_class="TransfoXLTokenizer"), pickle("vocab.pkl")
    ),
    "a tokenizer of retrieval": merged("tokenizer_config.json", tokenizer_class="RagTokenizer"),
    "an adapter": merged("adapter_config.json", **ADAPTER),
    "an adapter that imports": merged("adapter_config.json", **ADAPTER, **MEGATRON),
    "an adapter with its own library": merged("adapter_config.json", **ADAPTER, **AUTO),
    "an adapter, surrogate": several(merged("adapter_config.json", **ADAPTER), raw("adapter_config.json", SURROGATE)),
    "weights that are code": pickle("pytorch_model.bin"),
    "weights that are code, old format": pickle("pytorch_model.bin", **LEGACY),
    "weights that are code, among tensors": pickle("pytorch_model.bin", content={"a": Pickled()}),
    "weights that are code, a program of torch": torchscript,
    "weights that are code, in parts": several(
        pickle("pytorch_model-00001-of-00001.bin"),
        merged(SHARDS, metadata={}, weight_map={"embeddings": "pytorch_model-00001-of-00001.bin"}),
    ),
    "weights in parts elsewhere": several(
        pickle("pytorch_model.bin"), merged(SHARDS, metadata={}, weight_map={"a": "../outside/x.bin"})
    ),
    "safe weights in parts elsewhere": merged("model.safetensors.index.json", weight_map={"a": "/tmp/x.safetensors"}),
    "weights that take a thousand times their size": deflated,
    "weights that are code, beside weights of another name": several(
        pickle("pytorch_model.bin"), written("other.safetensors", (2).to_bytes(8, "little") + b"{}")
    ),
    "safe weights with an endless header": written("model.safetensors", (1 << 60).to_bytes(8, "little") + b"{}"),
    "safe weights with a header that is none": written("model.safetensors", (4).to_bytes(8, "little") + b"\xff{}["),
    "safe weights outside of their file": written(
        "model.safetensors",
        (62).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[9999999],"data_offsets":[0,39999996]}}'[:62],
    ),
    "code of a generation": several(merged("generation_config.json", auto_map={"x": "own.M"}), CODE),
    "code of a part, far down": merged("config.json", a={"b": [{"c": [{"auto_map": {"AutoModel": "own.M"}}]}]}),
    "code of a part of the folder": merged("x/y/config.json", **OWN),
    "code, in capitals": cased("config.json", merged("config.json", **OWN)),
    "a kernel of a part, in a list": kernel(layers=[{"attn_implementation": KERNEL}]),
    "a tokenizer that starts a program": merged("tokenizer_config.json", tokenizer_class="LayoutXLMTokenizer"),
    "a link to itself": looped("config.json"),
    "a link to a folder": linked_folder,
    "a pickle beside": written("x/y/z.pkl", b"cos\nsystem\n"),
    "a joblib beside": written("memory.joblib", b"cos\nsystem\n"),
    "a link to a configuration": linked("config.json"),
    "a link to weights": linked("model.safetensors"),
    "a pipe for a configuration": pipe("config.json"),
}
"""By name: changes to a folder of transformers."""

IMAGES: dict[str, Change] = {
    "code of a processor": several(merged("preprocessor_config.json", auto_map={"AutoImageProcessor": "own.M"}), CODE),
    "code of a processor, surrogate": several(
        merged("preprocessor_config.json", auto_map={"AutoImageProcessor": "own.M"}),
        raw("preprocessor_config.json", SURROGATE),
        CODE,
    ),
    "code of both processors": several(merged("processor_config.json", auto_map={"AutoProcessor": "own.M"}), CODE),
    "a foreign processor": merged("preprocessor_config.json", image_processor_type="canary.Encoder"),
    "a foreign extractor": merged("preprocessor_config.json", feature_extractor_type="canary.Encoder"),
    "a processor that starts a program": merged("preprocessor_config.json", **OCR),
    "a foreign processor inside of a pair": merged(
        "processor_config.json", image_processor={"image_processor_type": "canary.Encoder"}
    ),
    "code of a processor of videos": several(
        merged("video_preprocessor_config.json", auto_map={"AutoVideoProcessor": "own.M"}), CODE
    ),
    "a foreign pair of processors": merged("processor_config.json", processor_class="canary.Encoder"),
    "a kernel of the image tower": kernel(vision_config={"image_size": 32, "attn_implementation": KERNEL}),
}
"""By name: changes to a folder of CLIP."""

JINJA = "{{ cycler.__init__.__globals__.os.system('touch mark') }}"

UNREAD: dict[str, Change] = {
    "a state of an optimiser": lambda folder: weights(folder / "optimizer.pt"),
    "arguments of a training": lambda folder: weights(folder / "training_args.bin"),
    "a random state": lambda folder: weights(folder / "rng_state.pth"),
    "weights of torch beside safe ones": lambda folder: weights(folder / "pytorch_model.bin"),
    "an array of objects": lambda folder: written("x.npy", _array())(folder),
    "weights of another library": written("tf_model.h5", b"\x89HDF\r\n\x1a\n"),
    "weights in one file": written("model.gguf", b"GGUF\x03\0\0\0" + b"\xff" * 16),
    "a template of a chat": written("chat_template.jinja", JINJA),
    "a template of a chat in a tokenizer": merged("tokenizer_config.json", chat_template=JINJA),
    "templates of a chat": written("additional_chat_templates/x.jinja", JINJA),
    "code of a generation in a folder": several(
        written("custom_generate/generate.py", "import canary\n"),
        written("custom_generate/requirements.txt", "canary\n"),
    ),
    "code that nothing names": several(CODE, written("modeling_own.py", "import canary\n")),
    "a package": several(
        written("transformers.py", "import canary\n"), written("torch/__init__.py", "import canary\n")
    ),
    "settings of Python": several(written("sitecustomize.py", "import canary\n"), written("x.pth", "import canary\n")),
    "a model of open_clip": written("open_clip_config.json", json.dumps({"model_cfg": {"text_cfg": {"x": "canary"}}})),
    "a name that is no text": lambda folder: Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).write_text("{}"),
}
"""By name: what is added to a good folder of transformers, and no library reads; such a folder may be used."""


def _array() -> bytes:
    import io

    import numpy as np

    file = io.BytesIO()
    np.save(file, np.array([Pickled()], dtype=object), allow_pickle=True)
    return file.getvalue()
