# SPDX-License-Identifier: Apache-2.0
"""Stories for chat workloads: filler text with the lengths of a chat model's stories, and no sense.

TimelyLLM, section 7.4.2, has models continue prompts of WritingPrompts (Fan et al., arXiv 1805.04833). Only lengths
matter to the scheduler, so the text is drawn from a few words. Assumed: 200 to 340 words, which fit into the default of
512 tokens; paragraphs of two to six sentences; sentences of 14 words in the median, log-normal with sigma 0.5.
"""

import random

# fmt: off
_WORDS = (
    "the", "a", "one", "that", "this", "no", "every", "her", "his", "its", "old", "small",
    "grey", "last", "quiet", "red", "far", "long", "robot", "drone", "fox", "girl", "storm", "house",
    "river", "door", "light", "voice", "road", "night", "morning", "engine", "garden", "letter", "stone", "bird",
    "was", "had", "went", "came", "saw", "heard", "knew", "left", "found", "and", "but", "so",
    "then", "when", "where", "in", "on", "under", "over", "by", "with", "for", "from", "to",
    "of", "again", "never", "still",
)
# fmt: on
_STORY_WORDS = (200, 340)
_PARAGRAPH_SENTENCES = (2, 6)
_SENTENCE_WORDS, _SENTENCE_SIGMA, _LONGEST_SENTENCE = 14.0, 0.5, 45


def story(rng: random.Random) -> str:
    """Returns one story."""
    num_words = rng.randint(*_STORY_WORDS)
    paragraphs: list[str] = []
    while num_words > 0:
        sentences: list[str] = []
        for _ in range(rng.randint(*_PARAGRAPH_SENTENCES)):
            if num_words <= 0:
                break
            sentences.append(_sentence(rng))
            num_words -= len(sentences[-1].split())
        paragraphs.append(" ".join(sentences))
    return "\n\n".join(paragraphs)


def _sentence(rng: random.Random) -> str:
    length = max(3, min(_LONGEST_SENTENCE, round(_SENTENCE_WORDS * rng.lognormvariate(0.0, _SENTENCE_SIGMA))))
    words = [rng.choice(_WORDS) for _ in range(length)]
    return f"{' '.join(words).capitalize()}."
