"""Path filters on XML: the examples of section 4.4, comparisons as in Spark, and documents that nobody should trust."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.limits import MAX_DEPTH, MAX_XML, MAX_XML_PATH
from sluice.model.constraint import Negation
from sluice.model.parse import parse
from sluice.model.xml import XPath, read_document, xpath_boolean

AUCTION = """
<notification>
   <auction endtime="05/18/02 22:17:42" minprice="$50">
      <seller name="Smith" id="1234"/>
      <item> <board manufacturer="Elitegroup" type="K7S5" socket="Socket A"/> </item>
      <item> <cpu manufacturer="AMD" type="Athlon" socket="Socket A" clock="800"/> </item>
      Free text is ignored.
   </auction>
</notification>
"""


@pytest.mark.parametrize(
    "path",
    [
        "//item",
        "/notification/auction",
        "//cpu",
        "//item/cpu",
        '/notification/auction/item/cpu[@manufacturer="AMD" and @clock>=700]',
        '//cpu[@manufacturer="AMD"][@clock>=700]',
        '//seller[@name="Pu"] | //cpu[@type="Athlon"]',
        "//notification",
        "//auction[@minprice]",
    ],
)
def test_figure_4_10_matches(path: str) -> None:
    assert xpath_boolean(path).matches(AUCTION)


@pytest.mark.parametrize(
    "path",
    [
        "/auction",
        "/item",
        "//item/board/cpu",
        "//em",
        "//cpu[@clock>800]",
        '//board[@manufacturer="AMD"]',
        '//board[@manufacturer="Elitegroup" and @clock>=700]',
        "//seller[@clock]",
    ],
)
def test_figure_4_10_does_not_match(path: str) -> None:
    assert not xpath_boolean(path).matches(AUCTION)
    assert Negation(xpath_boolean(path)).matches(AUCTION)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        # attribute filters and element filters
        ("//c[@clock>=600]", "//c[@clock>=700]"),
        ("//c[@clock>=600]", '//c[@manufacturer="AMD" and @clock>=700]'),
        ("//c", "//c[@clock>=700]"),
        ("//c[@clock]", "//c[@clock>=700]"),
        ("//c[@clock>=600]", '//c[@clock="700"]'),
        # element selectors
        ("/a/b", "/a/b"),
        ("//cpu", "//item/cpu"),
        ("//cpu", "/item/cpu"),
        ("//item/cpu", "/notification/item/cpu"),
        # path filters
        ('//cpu[@manufacturer="AMD"]', '//cpu[@manufacturer="AMD" and @clock>=700]'),
        ('//cpu[@manufacturer="AMD"]', '/n/cpu[@clock>=700][@manufacturer="AMD"]'),
        ("//a | //b", "//b[@x]"),
        ("//a | //b", "//a/b | /a"),
    ],
)
def test_covering_as_in_section_4_4_3(wide: str, narrow: str) -> None:
    assert xpath_boolean(wide).covers(xpath_boolean(narrow))
    if wide != narrow:
        assert not xpath_boolean(narrow).covers(xpath_boolean(wide))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("/a/b", "/a/c"),
        ("//pu", "//cpu"),
        ("//item/cpu", "//board/cpu"),
        ("//c[@x>=600]", "//c[@y>=700]"),
        ('//c[@x="a"]', "//d[@x]"),
        ("//a | //b", "//a | //c"),
        ("//c[@x!=5]", "//c[@x<5]"),
    ],
)
def test_not_covering(a: str, b: str) -> None:
    assert not xpath_boolean(b).covers(xpath_boolean(a))


def test_an_absolute_path_covers_no_abbreviated_one() -> None:
    """The dissertation says /notification covers //notification, since only the root has that name; here any may."""
    below = "<other><notification/></other>"
    assert xpath_boolean("//notification").matches(below) and not xpath_boolean("/notification").matches(below)
    assert not xpath_boolean("/notification").covers(xpath_boolean("//notification"))


def test_corollary_4_4_has_its_quantifiers_swapped() -> None:
    """Printed: every filter of C2 is covered by one of C1. It must be: every filter of C1 covers one of C2."""
    c1 = [xpath_boolean("//c[@clock>=600]")]
    c2 = [xpath_boolean('//c[@manufacturer="AMD"]'), xpath_boolean("//c[@clock>=700]")]
    whole = xpath_boolean('//c[@manufacturer="AMD" and @clock>=700]')
    assert c1[0].covers(whole), "the dissertation's own example"
    assert not all(any(a.covers(b) for a in c1) for b in c2), "as printed"
    assert all(any(a.covers(b) for b in c2) for a in c1), "as meant"


def test_two_paths_always_overlap() -> None:
    assert xpath_boolean("//a[@x=1]").overlaps(xpath_boolean("/b[@x=2]"))


def test_unions_are_exact_and_reduced() -> None:
    assert xpath_boolean("//a").union(xpath_boolean("//b")) == xpath_boolean("//b | //a")
    assert xpath_boolean("//a").union(xpath_boolean("/b/a[@x]")) == xpath_boolean("//a")
    assert xpath_boolean("//a | //b/a | //a[@x]") == xpath_boolean("//a")


#: What Spark 4.3 says of the element below, path by path.
FACTS = """
@x=5        true
@x=5.0      true
@x=5.       true
@x="5"      true
@x="5.0"    false
@x!=5       false
@x!="5"     false
@x!=6       true
5<@x        false
5>=@x       true
"5"=@x      true
@x<"6"      true
@x<"abc"    false
@x>="abc"   false
@y=5        false
@y!=5       true
@y<5        false
@y>=5       false
@empty=0    false
@empty!=0   true
@none!=5    false
@none!="x"  false
@spaced=7   true
@spaced="7" false
@exp=1000   false
@plus=5     false
@hex=16     false
@dot=5      true
@half=.5    true
@minus=-3   true
@minus = - 3 true
@apart=-3   false
@inf>5      false
@inf!=5     true
@nan!=5     true
@zero=0     true
@x and @y   true
@x>=5 and @y="abc" true
@y="ab" and @x     false
"""
ELEMENT = """<b x="5" y="abc" empty="" spaced=" 7 " exp="1e3" plus="+5" hex="0x10" dot="5." half=".5" minus="-3"
 apart="- 3" inf="Infinity" nan="NaN" zero="-0"/>"""


@pytest.mark.parametrize("line", FACTS.strip().splitlines())
def test_comparisons_are_those_of_xpath(line: str) -> None:
    test, _, truth = line.rpartition(" ")
    assert xpath_boolean(f"//b[{test}]").matches(ELEMENT) == (truth == "true")


@pytest.mark.parametrize(
    ("document", "matches"),
    [
        ("<a><b x='&#53;'/></a>", True),
        ("<!DOCTYPE a><a><b x='5'/></a>", True),
        ("<?xml version='1.0' encoding='UTF-16'?><a><b x='5'/></a>", True),
        ("<a xmlns='u'><b x='5'/></a>", True),
        ("<a xmlns:n='u'><b n:x='5'/></a>", True),
        ("<a xmlns:n='u'><b n:x='6' x='5'/></a>", True),
        ("<n:a xmlns:n='u'><n:b x='5'/></n:a>", False),
        ("<a><b xmlns:x='5'/></a>", False),
        ("  <a>\n<b x='5'></b></a>\n", True),
    ],
)
def test_documents_are_read_as_spark_does(document: str, matches: bool) -> None:
    assert xpath_boolean("//b[@x=5]").matches(document) == matches
    assert Negation(xpath_boolean("//b[@x=5]")).matches(document) == (not matches)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 30))


@pytest.mark.parametrize(
    "document",
    [
        "",
        "text",
        "<a><b x='5'>",
        "<a/><b x='5'/>",
        "<b x='5' x='6'/>",
        "<b x='5'/>\0",
        "\ufeff<b x='5'/>",
        "<b x='5' y='\ud800'/>",
        "<b x='5' y='&unknown;'/>",
        "<!DOCTYPE b [<!ENTITY t '5'>]><b x='&t;'/>",
        f"<!DOCTYPE b [<!ENTITY l0 'ha'>{LAUGHS}]><b x='5' y='&l29;'/>",
        "<!DOCTYPE b [<!ENTITY t SYSTEM 'file:///etc/hostname'>]><b x='5'>&t;</b>",
        "<!DOCTYPE b SYSTEM 'file:///etc/hostname'><b x='5'/>",
        "<!DOCTYPE b [<!ATTLIST b x CDATA '5'>]><b/>",
        "<a>" * (MAX_DEPTH + 1) + "<b x='5'/>" + "</a>" * (MAX_DEPTH + 1),
        f"<{'a' * MAX_XML_PATH}><b x='5'/></{'a' * MAX_XML_PATH}>",
        f"<b x='5'>{' ' * MAX_XML}</b>",
    ],
)
def test_documents_that_are_not_trusted_are_null(document: str) -> None:
    test = xpath_boolean("//b[@x=5]")
    assert read_document(document) is None
    assert not test.matches(document) and not Negation(test).matches(document)


@pytest.mark.parametrize("value", [None, 5, b"<b x='5'/>", ("<b x='5'/>",), {"b": 5}])
def test_other_kinds_are_null(value: object) -> None:
    assert not xpath_boolean("//b").matches(value) and not Negation(xpath_boolean("//b")).matches(value)


@pytest.mark.parametrize(
    ("path", "position", "advice"),
    [
        ("", 0, "begin the path with /"),
        ("a/b", 0, "begin the path with /"),
        ("/", 1, "the name of an element"),
        ("//*", 2, "the name of an element"),
        ("//a//b", 3, "only stand at the beginning"),
        ("//a/@x", 4, "in brackets"),
        ("//a[1]", 5, "compare a literal with an attribute"),
        ("//a[b]", 4, "test an attribute"),
        ("//a[not(@x)]", 4, "test an attribute"),
        ("//a[@x=5 or @x=6]", 9, "two paths with |"),
        ("//a[@x=5", 8, "close them with ]"),
        ("//a[@x=]", 7, "compare with a number"),
        ("//a[@x=+5]", 7, "compare with a number"),
        ("//a[@x=1e3]", 8, "join tests with and"),
        ("//a[@x=@y]", 7, "compare with a number"),
        ("//a[@x=-'5']", 8, "compare with a number"),
        ("//a[@x='5]", 7, "compare with a number"),
        ("//a[@*]", 5, "the name of an attribute"),
        ("//a[@x]/b", 7, "behind the last name"),
        ("//a[@x] //b", 8, "behind the last name"),
        ("//n:a", 3, "namespace"),
        ("//a[@n:x]", 6, "namespace"),
        ("//a |", 5, "begin the path with /"),
        ("//a b", 4, "several paths with |"),
        ("//a[@x=" + "9" * 400 + "]", 7, "double"),
        (" | ".join(["//a"] * 300), None, "several subscriptions"),
    ],
)
def test_other_paths_are_explained(path: str, position: int | None, advice: str) -> None:
    with pytest.raises(ValueError) as caught:
        xpath_boolean(path)
    assert advice in str(caught.value)
    if position is not None:
        assert f"(character {position} of the path)" in str(caught.value)


def test_the_path_is_a_string() -> None:
    with pytest.raises(ValueError, match="the path is a string"):
        xpath_boolean(5)


@given(st.text("/ab[]@=<>!'\"1. |-andor*()", max_size=20))
@settings(deadline=None)
def test_any_path_is_read_or_explained(path: str) -> None:
    try:
        test = xpath_boolean(path)
    except ValueError as error:
        assert "of the path" in str(error)
    else:
        assert xpath_boolean(" | ".join(map(str, test.paths))) == test


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        ('  // cpu [ @clock >= 700.0 ] [ "AMD" = @maker ] ', '//cpu[@clock>=700 and @maker="AMD"]'),
        ("/a/b[@x=-0.5]", "/a/b[@x=-0.5]"),
        ("//a[@x='say \"hi\"']", "//a[@x='say \"hi\"']"),
        ("//a[@x<.0000001]", "//a[@x<0.0000001]"),
        ("//a[@x>-0]", "//a[@x>-0]"),
        ("//a[@x<123456789012345678901234567890]", "//a[@x<123456789012345680000000000000]"),
        ("//b|//a", "//a | //b"),
        ("//a[@x and 5<@x and @x]", "//a[@x and @x>5]"),
    ],
)
def test_the_text_in_canonical_form(path: str, canonical: str) -> None:
    test = xpath_boolean(path)
    assert " | ".join(map(str, test.paths)) == canonical
    assert xpath_boolean(canonical) == test


def test_sql() -> None:
    for path in ("//a[@x='it']", '//a[@x="it\'s"] | /b', "//a[@x='\\n']"):
        test = xpath_boolean(path)
        assert parse(test.to_sql("doc")).filters[0].constraints["doc"] == test
    assert xpath_boolean("//a[@x='it']").to_sql("order.doc") == "xpath_boolean(order.doc, '//a[@x=\"it\"]')"


LITERALS = st.sampled_from(["1", "2", '"1"', '"2"', '"a"', "1.5", '""'])
TESTS = st.one_of(
    st.sampled_from(["@x", "@y"]),
    st.builds(
        "{}{}{}".format, st.sampled_from(["@x", "@y"]), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), LITERALS
    ),
)
PATHS = st.builds(
    lambda selector, tests: selector + "".join(f"[{test}]" for test in tests),
    st.sampled_from(["/a", "//a", "//b", "/a/b", "//a/b", "//b/b"]),
    st.lists(TESTS, max_size=2),
)
XPATHS = st.lists(PATHS, min_size=1, max_size=2).map(" | ".join).map(xpath_boolean)
TEXTS = ["1", "2", "1.0", "3", "a", "", "0"]
ELEMENTS = (
    ["{}"] + [f'x="{text}"' for text in TEXTS] + [f'y="{text}"' for text in TEXTS] + ['x="2" y="1"', 'x="a" y="a"']
)
DOCUMENTS = [
    text.format(element.strip("{}"))
    for element in ELEMENTS
    for text in (
        "<a {0}/>",
        "<b {0}/>",
        "<a><b {0}/></a>",
        "<c><a {0}/></c>",
        "<c><b><b {0}/></b></c>",
        "<a><a><b {0}/></a></a>",
    )
]


@settings(deadline=None)
@given(XPATHS, XPATHS)
def test_the_algebra_agrees_with_matching(a: XPath, b: XPath) -> None:
    in_a = {document for document in DOCUMENTS if a.matches(document)}
    in_b = {document for document in DOCUMENTS if b.matches(document)}
    if a.covers(b):
        assert in_a >= in_b
    if in_a & in_b:
        assert a.overlaps(b)
    union = a.union(b)
    assert union is not None
    assert {document for document in DOCUMENTS if union.matches(document)} == in_a | in_b
    assert a.covers(a) and union.covers(a) and union.covers(b)
