"""Strings that tokenizers get wrong, and a strategy that makes more of them."""

from __future__ import annotations

from hypothesis import strategies as st

HARD = [
    "In the beginning God created the heaven and the earth.",
    " leading space",
    "trailing space ",
    "  two  spaces   three    four",
    "\n\nlines\n\n\nand\ttabs\t\tand \r\n returns\r",
    "def f(x):\n    if x > 10:\n\treturn {'a': [1, 2, 3]}  # 12345678901234567890\n",
    "naïve café, ångström; e\u0301 as two, ﬁ ligature, ½ and ² and ①",
    "日本語のテキスト、句読点。中文没有空格也可以",
    "العربية من اليمين إلى اليسار و עברית",
    "हिन्दी में संयुक्ताक्षर क्षत्रिय",
    "😀👍🏽👨‍👩‍👧‍👦🇩🇪 mixed😀with words",
    "zero\u200bwidth\u200djoiner\ufeff bom \u202eright to left",
    "https://example.org/a/b?c=d&e=f%20g#h user@example.org 3.14159e-10",
    "\x00\x01\x1b[31m control \x7f",
    "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc",
    "a" * 90,
    "<|end|> <unk> <s> </s> <|im_start|>user",
    "<script>alert(1)</script> ${x} {{y}} `z` \\path\\to",
    "don't can't I'll they've x's",
    "… — – “quoted” ‘single’ «guillemets»",
    "\ufffd replacement \ufffd",
]

words = st.sampled_from(
    ["the", " and", " earth", "ing", "'s", ".", ",", " ", "  ", "\n", "\t", "é", "日本", "😀", "👍🏽", " क्ष", "123", " 4567", "_", "→"]
)
texts = st.one_of(
    st.lists(words, min_size=1, max_size=40).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30),
    st.sampled_from(HARD),
)
