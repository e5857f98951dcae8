"""The language of manual pages."""


def roff(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace("\n.", "\n\\&.")
