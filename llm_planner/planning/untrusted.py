"""Text from outside: instructions and scenes become one harmless line before a model reads them."""

import unicodedata

_MAX_COMBINING_RUN = 30  # Stream-Safe Text Format, UAX #15: normalising longer runs takes quadratic time


def flatten(text: str) -> str:
    """Returns ``text`` on one line, in Unicode form NFC, with single spaces and without invisible characters.

    Line breaks and control characters become spaces, so that the text cannot end its own field of the prompt;
    format characters (zero width, reversed direction) and lone surrogates disappear. Linear in the length.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", _without_hazards(text))
    printable = (character if character.isprintable() else " " for character in text)
    return " ".join("".join(printable).split())


def _without_hazards(text: str) -> str:
    """Returns ``text`` without invisible characters and without endless runs of combining marks."""
    kept: list[str] = []
    run_length = 0
    for character in text:
        run_length = run_length + 1 if unicodedata.combining(character) else 0
        if run_length <= _MAX_COMBINING_RUN and unicodedata.category(character) not in {"Cf", "Cs"}:
            kept.append(character)
    return "".join(kept)
