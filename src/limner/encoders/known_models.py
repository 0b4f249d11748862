"""Names of much-used models on the hub, for a mistyped name where the hub cannot be searched."""

from __future__ import annotations

KNOWN = (
    "openai/clip-vit-base-patch32", "openai/clip-vit-base-patch16", "openai/clip-vit-large-patch14",
    "openai/clip-vit-large-patch14-336", "laion/CLIP-ViT-B-32-laion2B-s34B-b79K",
    "laion/CLIP-ViT-H-14-laion2B-s32B-b79K", "google/siglip-base-patch16-224", "google/siglip-so400m-patch14-384",
    "google/siglip2-base-patch16-224", "google/siglip2-base-patch16-naflex", "google/siglip2-so400m-patch14-384",
    "Salesforce/blip-itm-base-coco", "Salesforce/blip-itm-large-coco", "Salesforce/blip2-itm-vit-g", "BAAI/AltCLIP",
    "OFA-Sys/chinese-clip-vit-base-patch16", "sentence-transformers/clip-ViT-B-32",
    "sentence-transformers/clip-ViT-B-32-multilingual-v1", "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-mpnet-base-v2", "BAAI/bge-base-en-v1.5", "intfloat/multilingual-e5-base",
    "Xenova/clip-vit-base-patch32", "Xenova/clip-vit-base-patch16", "Xenova/siglip-base-patch16-224",
    "vidore/colpali-v1.3-hf", "vidore/colqwen2-v1.0-hf", "apple/DFN2B-CLIP-ViT-B-16", "kakaobrain/align-base",
)  # fmt: skip
"""Their names."""
