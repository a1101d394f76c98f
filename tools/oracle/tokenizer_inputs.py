#!/usr/bin/env python3
"""Texts for tokenize_oracle: prose, code, many scripts, emoji, digits, white
space, contractions, special tokens and random mixtures. The same on every run.
"""
import json
import random

PROSE = [
    "Hello, world!",
    "The quick brown fox jumps over the lazy dog.",
    "I can't believe it's not butter; they've said we'll see, I'm sure you'd agree.",
    "I CAN'T BELIEVE IT'S NOT BUTTER; THEY'VE SAID WE'LL SEE.",
    "It\u2019s the typographic apostrophe that doesn\u2019t count.",
    "'s 't 're 've 'm 'll 'd 'S 'T 'RE 'x ''s '",
    "O'Reilly's d'Artagnan rock'n'roll o'clock",
    "Prices rose 3.5% to $1,234,567.89 (about \u20ac1.1m) on 2024-02-29.",
    "See https://example.com/a/b?c=d&e=f#g or mail me@example.org.",
    "Stra\u00dfe, caf\u00e9, na\u00efve, \u00c5ngstr\u00f6m, \u0141\u00f3d\u017a, \u0130stanbul",
    "cafe\u0301 nai\u0308ve A\u030angstro\u0308m (decomposed)",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3002\u30ab\u30bf\u30ab\u30ca\u3068\u6f22\u5b57\u3002",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430?",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0967\u0968\u0969",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
    "\u1780\u17b6\u1793\u17cb\u178f\u17c2\u1796\u17b7\u179f\u17c1\u179f\u17a2\u17b6\u1785",
    "\U0001f680\U0001f525 emoji \U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "\u00bd \u00b2 \u2163 \u2460 \u0663 \u3007 \U0001d7d9",
    "x\u00a0y\u2003z\u3000w\u200bv\u2028u\u2029t\u0085s",
    "\u180e mongolian separator \u180e\u180e",
    "\u201cquoted\u201d \u2018text\u2019 \u2014 dash \u2013 dots\u2026",
    "a\u0000b\u0001c\u007fd",
    "\ufeffbom at the start",
    "Zalgo h\u0337e\u0335l\u0336l\u0334o\u0338",
]

CODE = [
    "def f(x):\n    return x ** 2\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
    "#include <vector>\nstd::vector<std::string> v{\"a\", \"b\"};",
    "SELECT * FROM t WHERE id = 42 AND name LIKE '%x%';",
    "{\"key\": [1, 2.5, -3e10, null, true], \"n\": {}}",
    "<div class=\"a b\"><!-- c --></div>\r\n<br/>",
    "if [[ $x -gt 10 ]]; then echo \"$x\"; fi  # comment",
    "let s = `a ${b} c`; // ok\n/* block */",
    "\t\tindented\n\t    mixed\n        spaces\n",
    "0x1F 0b1010 1_000_000 1e-9 .5 5. 007",
    "a==b!=c<=d>=e&&f||!g->h::i<<j>>k",
    "\\section{A} $\\alpha^2 + \\beta_i$ \\\\",
]

SPACE = [
    " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\r\n", "\r\n\r\n", "\t", "\t\t",
    " \n", "\n ", "  \n  ", " \t \n \t ", "a ", " a", "  a", "a  b", "a   b",
    "a\n", "a\nb", "a\n\nb", "a \n b", "a  \n  b", "a\tb", "a\r\nb", "\n\na",
    "a \n\n\n b \n", "     x     ", "x\u3000\u3000y", "x \u00a0 y", "\u2003\u2003x",
    "", "1 2  3   4", "... ...  ...", " .", "  .", "\n.", ".\n", ".\r\n.\n\n",
]

DIGITS = [
    "1", "12", "123", "1234", "12345", "123456789012345", " 1", "  12", "1a2b3c",
    "3.14159", "1,000,000", "v1.2.3-rc4", "\u0661\u0662\u0663\u0664", "\u00b2\u00b3\u00b9", "99 bottles",
    "2024-01-02T03:04:05Z", "+49 (0) 123 456", "IPv4 192.168.0.1:8080", "\uff11\uff12\uff13",
]

SPECIAL = [
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>", "a<|endoftext|>b", "<|im_end|><|im_end|>", "<|im_end|",
    "<|im_start|><|im_start|>system\n<|im_end|>", "< |im_end|>", "<|IM_END|>",
    "<repo_name>x<file_sep>y", "<jupyter_code>print(1)<jupyter_output>",
    "<|im_start|>  spaced  <|im_end|>  \n\n", "<<|im_end|>>", "<fim_prefix>a<fim_suffix>b",
    "text <|im_end|> text", "\u4f60\u597d<|im_end|>\u4e16\u754c", "<issue_start>1<issue_closed>",
]

ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyz     ",
    "ABCabc'sStTdDmMlLrReEvV  ''",
    "0123456789  .,-",
    " \t\n\r  \u3000\u00a0ab",
    ".,;:!?()[]{}<>|&*^%$#@~`/\\\"' a1",
    "\u4e2d\u6587\u5b57\u7b26\u6d4b\u8bd5\u3002\uff0c ab1",
    "\u0430\u0431\u0432\u0433\u0434\u0435\u0436\u0437 \u0410\u0411\u0412 1.",
    "\u0627\u0628\u062a\u062b \u0661\u0662 a.",
    "\U0001f600\U0001f680\u2764\ufe0f\u200d ab",
    "e\u0301a\u0308o\u0302 \u0915\u093f\u094d\u0937 x1",
    "\u00e9\u00fc\u00df\u00f1\u00bd\u00b2\u00ba\u00aa\u01c5 .",
    "\u1100\u1161\uac00\ub098 \u3042\u30a2\u30fc x",
]

WORDS = (
    "the of and to in is that it was for on are as with his they at be this from I have "
    "or by one had not but what all were when we there can an your which their said if do "
    "model token decode prefill cache attention gradient kernel latency throughput buffer "
    "int float void const return class struct template namespace import lambda async await"
).split()


def random_texts(rng):
    for alphabet in ALPHABETS:
        for _ in range(22):
            yield "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 60)))
    for _ in range(80):
        words = [rng.choice(WORDS) for _ in range(rng.randint(2, 30))]
        yield rng.choice([" ", " ", "_", ", ", "\n", "  ", "-"]).join(words)
    pools = PROSE + CODE + SPACE + DIGITS + SPECIAL
    for _ in range(120):
        parts = [rng.choice(pools) for _ in range(rng.randint(2, 4))]
        yield "".join(parts)
    for _ in range(40):
        # Any characters of the basic planes, surrogates apart.
        text = []
        for _ in range(rng.randint(1, 20)):
            c = rng.choice([rng.randint(1, 0x2FF), rng.randint(0x300, 0xD7FF),
                            rng.randint(0xE000, 0xFFFD)])
            text.append(chr(c))
        yield "".join(text)


def main():
    rng = random.Random(20240229)
    fixed = PROSE + CODE + SPACE + DIGITS + SPECIAL
    for text in fixed + list(random_texts(rng)):
        print(json.dumps({"text": text, "parse_special": False}, ensure_ascii=False))
        if "<" in text:
            print(json.dumps({"text": text, "parse_special": True}, ensure_ascii=False))


if __name__ == "__main__":
    main()
