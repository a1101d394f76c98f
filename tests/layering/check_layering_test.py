#!/usr/bin/env python3
"""Tests of check_layering.py's own rules, on made-up headers."""
import os
import tempfile
import unittest

from check_layering import twice_defined, types_defined

ROUTER = "namespace a::b {\nclass Router {\n};\n}\n"


class TwiceDefinedTest(unittest.TestCase):
    def faults(self, **headers):
        with tempfile.TemporaryDirectory() as root:
            for name, text in headers.items():
                with open(os.path.join(root, name), "w",
                          encoding="utf-8") as out:
                    out.write(text)
            return twice_defined(root, sorted(headers))

    def test_one_name_in_one_namespace_is_refused(self):
        for other in (
                ROUTER,
                "namespace a { namespace b { struct Router final : X {}; } }",
                "namespace a::b { enum class Router : int { kA }; }",
                "namespace a::b { template <class T> class Router {}; }",
                'namespace a::b { class CAP("m") Router { int x; }; }'):
            self.assertEqual(self.faults(x=ROUTER, y=other),
                             ["a::b::Router is defined in x and y"], other)

    def test_other_namespaces_and_scopes_are_not(self):
        for other in ("namespace a { class Router {}; }",
                      "namespace a::b { class Router; }",
                      "namespace a::b { namespace { class Router {}; } }",
                      "namespace a::b { struct X { class Router {}; }; }",
                      "namespace a::b { void F() { struct Router {}; } }",
                      "namespace a::b { template <> struct Router<int> {}; }",
                      "// namespace a::b { class Router {}; }",
                      "namespace a::b { Router Make() { return {}; } }"):
            self.assertEqual(self.faults(x=ROUTER, y=other), [], other)

    def test_finds_types_among_everything_else(self):
        self.assertEqual(types_defined('''
#define OPEN {
namespace n {
/* class No { */ const char* kText = "}{ class No {";
constexpr char kBrace = '{';
inline int F(int x) { return x; }
using A = int;
class Forward;
struct One { int a = 1; void f() { if (a) { } } };
extern "C" { struct Two {}; }
template <typename T, typename = void> struct Three : One { T t; };
}  // namespace n
'''), ["n::One", "n::Two", "n::Three"])


if __name__ == "__main__":
    unittest.main()
