"""Words that mix scripts, or only look Latin."""

from __future__ import annotations

from taskhub.lib.scripts import odd_words

ODD = {
    "pаypal": "Latin + Cyrillic",
    "gооgle": "Latin + Cyrillic",
    "αdmin": "Latin + Greek",
    "Ωmega": "Latin + Greek",
    "рау": "Cyrillic",
    "АВС": "Cyrillic",
    "ВЕТА": "Cyrillic",
    "ａdmin": "Latin + Fullwidth",
    "ａｄｍｉｎ": "Fullwidth",
    "𝐚𝐝𝐦𝐢𝐧": "Mathematical",
    "ᎪᎷᎬᎡ": "Cherokee",
    "հօѕт": "Armenian + Cyrillic",
}
PLAIN = (
    *("admin", "Grüße", "naïve", "İstanbul", "Привет мир", "о чем ты", "Ελληνικά και", "Հայերեն", "שלום עולם", "مرحبا"),
    *(
        "日本語ＡＢＣ",
        "iPhoneの新機能",
        "한국어 text",
        "5 μs",
        "Δt",
        "πr²",
        "x²",
        "Nº 5",
        "½",
        "№ 7",
        "1ª",
        "𝑥",
        "тест-test",
    ),
    *("ﬁle", "ŀ", "Ǆ", "🇩🇪", "①②", "㈱", "🅰", "ไทย", "नमस्ते", "ⅣⅫ"),
)


def test_words_of_several_scripts_are_found() -> None:
    for word, scripts in ODD.items():
        [odd] = odd_words(f"send it to {word}, please")
        assert (odd.short, odd.start, odd.end) == (scripts, 11, 11 + len(word)), word
        assert f"U+{ord(odd.letters[0]):04X}" in odd.label


def test_words_of_one_script_are_not() -> None:
    for word in PLAIN:
        assert list(odd_words(f"send {word} now")) == [], word
        assert list(odd_words(word)) == [], word
