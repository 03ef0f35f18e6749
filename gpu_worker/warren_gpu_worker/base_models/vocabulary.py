# pyright: reportUnknownMemberType=false
"""Which text each token id stands for, as a digest.

Ids mean nothing without the vocabulary that they are of: what one tokenizer made is noise to a model with
another one, even where every id is in range. So samplers say of every transcript, and trainers of every
model, which vocabulary it is. The chat template is no part of it, nor how a text is split.
"""

import hashlib
import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from warren_gpu_worker.base_models.loading import load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)


def vocabulary_digest(tokenizer: "PreTrainedTokenizerBase") -> str:
    """32 hexadecimal digits; the same for all tokenizers whose ids stand for the same texts."""
    digest = hashlib.blake2b(digest_size=16)
    for text, token in sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1]):
        digest.update(f"{token} {len(text)} {text}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()


@lru_cache(maxsize=64)
def folder_digest(folder: str) -> str:
    """Of the base model in this folder; empty where it has no tokenizer, so that nothing can be compared."""
    try:
        return vocabulary_digest(load_tokenizer(folder))
    except (OSError, ValueError) as error:
        log.warning("%s has no tokenizer that can be read: %s", folder, error)
        return ""
