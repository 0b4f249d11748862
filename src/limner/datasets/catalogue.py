"""The built-in data sets and file formats, in the order in which a bare path is tried."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dataset:
    """The registry entry of one data set or file format.

    Args:
        name: Name for `load`.
        description: One line.
        loader: The function, as "module:function".
        files: File patterns; the first ones identify a folder or file of this kind.
        fetch: Where to get it and where to put it.
        needs_path: Whether `load` needs a path.
        hub: Its name on the Hugging Face hub with the commit, if the bare name fetches it from there; its test split by
            default.
        hub_loader: The function that loads it from there, as "module:function".
        licence: The terms, if they are known for certain.
        sizes: The published numbers of images and texts, of all of it and of its splits; 0 for any number.
    """

    name: str
    description: str
    loader: str
    files: tuple[str, ...] = ()
    fetch: str = "Your own data; nothing to download."
    needs_path: bool = True
    hub: str = ""
    hub_loader: str = "limner.datasets.hub_data:load_hub"
    licence: str = ""
    sizes: tuple[tuple[int, int], ...] = ()


_FLICKR = "The photographs belong to their authors on Flickr: for research and education, not commercial."
_COCO = "Annotations CC BY 4.0; the photographs are under the terms of Flickr."

BUILT_IN = (
    Dataset(
        "scenes",
        "a small synthetic world that limner draws itself; every true match is known",
        "limner.datasets.scenes:load",
        fetch="Nothing to download: limner draws it.",
        needs_path=False,
    ),
    Dataset(
        "flickr8k",
        "8,091 photographs, 5 captions each, expert and crowd judgements (Hodosh et al. 2013)",
        "limner.datasets.flickr:load_flickr8k",
        files=("Flickr8k.token.txt", "text/Flickr8k.token.txt", "Flickr8k_text/Flickr8k.token.txt"),
        fetch=(
            "Ask for Flickr8k at the University of Illinois (Hockenmaier group) or take a public mirror. Unpack"
            " Flickr8k_text.zip into DIR/text and Flickr8k_Dataset.zip into DIR/images."
        ),
        hub="clip-benchmark/wds_flickr8k",
        licence=_FLICKR,
        sizes=((8_091, 40_455), (8_000, 40_000), (6_000, 30_000), (1_000, 5_000)),
    ),
    Dataset(
        "flickr8k-cn",
        "Chinese captions of Flickr8k (Li et al. 2016)",
        "limner.datasets.multilingual:load_flickr8k_cn",
        files=("chinese_human.txt", "*zhc*.txt"),
        fetch=(
            "Flickr8k-CN by Xirong Li's group (Renmin University); put its captions and Flickr8k's split lists "
            "into DIR."
        ),
    ),
    Dataset(
        "flickr30k",
        "31,783 photographs, 5 captions each, as results_20130124.token (Young et al. 2014)",
        "limner.datasets.flickr:load_tokens",
        files=("results_*.token", "*.token"),
        fetch=(
            "Ask for Flickr30k at the University of Illinois; put results_20130124.token into DIR and the "
            "photographs into DIR/flickr30k-images."
        ),
        hub="clip-benchmark/wds_flickr30k@f8af3ceee1b944bf761340682621dfafd23974d2",
        licence=_FLICKR,
        sizes=((31_783, 158_915), (31_014, 155_070), (29_000, 145_000), (1_014, 5_070), (1_000, 5_000)),
    ),
    Dataset(
        "huggingface",
        "a folder that the datasets library wrote (save_to_disk), with columns image and caption",
        "limner.datasets.memory_tables:load_saved",
        files=("dataset_dict.json", "state.json"),
        fetch="Your own data, or `datasets.load_dataset(NAME).save_to_disk(DIR)` on a machine with access to the hub.",
    ),
    Dataset(
        "karpathy",
        "Flickr8k, Flickr30k or COCO as Karpathy's dataset_*.json, with the splits most papers use",
        "limner.datasets.karpathy:load_json",
        files=("dataset_*.json",),
        fetch="Andrej Karpathy's caption splits (caption_datasets.zip, Stanford); unpack it and keep the JSON file.",
    ),
    Dataset(
        "precomp",
        "Flickr30k or COCO as *_caps.txt and *_ids.txt of VSE++ and SCAN",
        "limner.datasets.karpathy:load_precomp",
        files=("*_caps.txt",),
        fetch="The data archives of the VSE++ or SCAN code; DIR is f30k_precomp or coco_precomp.",
    ),
    Dataset(
        "coco-5k",
        "COCO's 5,000 test images and 25,000 captions with CxC, ECCV Caption and the five folds",
        "limner.datasets.coco:load_karpathy_5k",
        files=("karpathy_test_5k.tsv",),
        fetch=(
            "Captions: dataset_coco.json of Andrej Karpathy's caption splits (caption_datasets.zip, Stanford) in DIR,"
            " then 'coco-5k:DIR'. CxC and ECCV Caption: pip install 'limner[eccv]'. Ratings: sits_test.csv of"
            " Crisscrossed Captions in DIR. Photographs: images=FOLDER with COCO's val2014."
        ),
        needs_path=False,
        licence=_COCO,
        sizes=((5_000, 25_000),),
    ),
    Dataset(
        "coco",
        "COCO's official captions_*.json, with objects from instances_*.json (Lin et al. 2014)",
        "limner.datasets.coco:load_captions",
        files=("captions_*.json", "annotations/captions_*.json"),
        fetch="cocodataset.org, Download, 2017 Train/Val annotations and images; unpack all into DIR.",
        hub="clip-benchmark/wds_mscoco_captions@3bf9ad5d280b03126293bcc691585015e29ce691",
        licence=_COCO,
    ),
    Dataset(
        "wit",
        "WIT or Kaggle's Wikipedia image-caption files, in many languages (Srinivasan et al. 2021)",
        "limner.datasets.wikipedia:load_wit",
        files=(
            "wit_v1*.tsv.gz",
            "wit_v1*.tsv",
            "train-0*-of-0*.tsv",
            "test-0*-of-0*.tsv",
            "*/train-0*.tsv",
            "*/*/train-0*.tsv",
        ),
        fetch=(
            "Google's WIT repository (wit_v1.*.tsv.gz), or Kaggle's competition wikipedia-image-caption; put "
            "all files below DIR."
        ),
        licence="CC BY-SA 3.0; each photograph has its own licence on Wikimedia Commons.",
    ),
    Dataset(
        "multi30k",
        "Flickr30k captions with German, French and Czech translations (Elliott et al. 2016)",
        "limner.datasets.multilingual:load_multi30k",
        files=("train.en", "train.en.gz", "train.1.en", "*/train.en", "multilingual*.tsv", "val.en"),
        fetch=(
            "The multi30k/dataset repository; put the text files (train.en, train.de, ...) and the lists of "
            "images (train.txt, ...) below DIR."
        ),
    ),
    Dataset(
        "xtd10",
        "1,000 COCO images with captions in 11 languages (Aggarwal & Kale 2020)",
        "limner.datasets.multilingual:load_xtd10",
        files=("XTD10/test_1kcaptions_*.txt", "test_1kcaptions_*.txt"),
        fetch=(
            "limner knows no copy of it on the hub with its images and all languages: take the"
            " adobe-research/Cross-lingual-Test-Dataset-XTD10 repository as DIR, and COCO's photographs (train2014 and"
            " val2014) as images=FOLDER."
        ),
        licence="Adobe's own (LICENSE.md of the repository); the photographs are under the terms of Flickr.",
        sizes=((1_000, 0),),
    ),
    Dataset(
        "crossmodal-3600",
        "3,600 images with captions by people in 36 languages (Thapliyal et al. 2022)",
        "limner.datasets.multilingual:load_crossmodal",
        files=("captions.jsonl", "*/captions.jsonl"),
        fetch="google.github.io/crossmodal-3600: unpack captions.zip and images.tgz into DIR.",
        hub="floschne/xm3600@8d3e5665526c55a5855cd6ddfbaba2032bc7cee4",
        hub_loader="limner.datasets.known_on_hub:load_crossmodal_hub",
        licence="Captions CC BY 4.0; photographs of Open Images, CC BY 2.0.",
        sizes=((3_600, 261_375),),
    ),
    Dataset(
        "sugarcrepe",
        "SugarCrepe: images with a caption and a hard negative; the wrong captions match no image (Hsieh et al. 2023)",
        "limner.datasets.probe_files:load_probe",
        fetch=(
            "github.com/RAIVNLab/sugar-crepe: its folder data as DIR, and COCO's val2017 photographs as images=FOLDER. "
            "'limner explain probe DIR' compares each caption with its own negative."
        ),
        hub="mteb/SUGARCREPE_fmt@e9e0e3ce40c94023c819d3413edb5d090ec9f0d8",
        hub_loader="limner.datasets.known_on_hub:load_sugarcrepe_hub",
        licence="MIT; the photographs are under the terms of Flickr.",
    ),
    Dataset(
        "hf",
        "a data set of the Hugging Face hub, hf:OWNER/NAME, fetched once and then read from the cache",
        "limner.datasets.hub_data:load_hub",
        fetch="limner fetches it; its licence is on its page, huggingface.co/datasets/OWNER/NAME.",
    ),
    Dataset(
        "qrels",
        "TREC qrels: only ids and grades, enough to evaluate a run",
        "limner.datasets.trec:load_qrels",
        files=("*.qrels", "*.trec", "*.qrels.gz"),
    ),
    Dataset(
        "beir",
        "BEIR and MTEB folders: corpus, queries and qrels",
        "limner.datasets.beir:load_beir",
        files=("corpus.jsonl",),
        fetch="Any folder in the form of BEIR, with images or their ids on one side.",
    ),
    Dataset(
        "clip-retrieval",
        "folders of clip-retrieval: metadata of images and captions beside their embeddings",
        "limner.datasets.clip_retrieval:load_clip_retrieval",
        files=("metadata/metadata_*.parquet",),
        fetch="What 'clip-retrieval inference' writes: img_emb, text_emb and metadata in DIR.",
    ),
    Dataset(
        "croissant",
        "a Croissant file (JSON-LD) and the tables and images that it describes",
        "limner.datasets.croissant:load_croissant",
        files=("croissant.json", "*.jsonld"),
        fetch="A data set with a Croissant file; put its files where croissant.json says, next to it.",
    ),
    Dataset(
        "webdataset",
        "WebDataset shards: tar files of images and captions, as written by img2dataset",
        "limner.datasets.webdataset:load_webdataset",
        files=("*.tar",),
    ),
    Dataset(
        "folder",
        "a folder of images with captions.csv (or tsv, jsonl, parquet) in it or next to it",
        "limner.datasets.caption_tables:load_folder",
        files=("captions.*", "metadata.*", "../captions.*"),
    ),
    Dataset(
        "classes",
        "images of classes, DIR/CLASS/IMAGE or a table with image and class: R@1 of images is zero-shot accuracy",
        "limner.datasets.class_images:load_classes",
        fetch="Your own data, or any classification data set as a folder for each class.",
    ),
    Dataset(
        "images",
        "a folder of images without captions, with the folders in it: a collection without texts",
        "limner.datasets.image_folder:load_images",
        files=("*.jpg", "*.png", "*/*.jpg"),
    ),
    Dataset(
        "pdf",
        "PDF files, one or a folder of them: an image of each page, a collection without texts",
        "limner.datasets.pdf_pages:load_pdfs",
        files=("*.pdf",),
    ),
    Dataset(
        "table",
        "a csv, tsv, jsonl, json or parquet table with columns image and caption",
        "limner.datasets.caption_tables:load_table",
        files=(
            "*.csv",
            "*.tsv",
            "*.jsonl",
            "*.ndjson",
            "*.parquet",
            "*.json",
            "*.txt",
            "*.csv.gz",
            "*.tsv.gz",
            "*.jsonl.gz",
        ),
    ),
)
