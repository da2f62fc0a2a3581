//! C-182, C-183, C-224 – C-228: matching of requests to routes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use oxds_core::lb::{Headers, RouteMatcher};
use oxds_core::resource::RouteConfig;

use crate::support::text::accepted;

/// Headers of a request: a name may occur more than once.
struct Request(BTreeMap<&'static str, Vec<&'static str>>);

impl Headers for Request {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        self.0.get(name).map(|values| values.join(",").into())
    }
}

fn matcher(text: &str) -> RouteMatcher {
    let route = format!("routes {{ match {{ {text} }} route {{ cluster: 'c' }} }}");
    let text = format!("name: 'r' virtual_hosts {{ name: 'h' domains: '*' {route} }}");
    let mut config: RouteConfig = accepted(&text);
    config.virtual_hosts[0].routes.remove(0).matcher
}

fn no_random() -> u64 {
    panic!("nothing is drawn for a match without a fraction")
}

fn path(text: &str, path: &str) -> bool {
    matcher(text).matches(path, &Request(BTreeMap::new()), no_random)
}

/// Returns whether the header matcher matches a request with these headers.
fn header(text: &str, headers: &[(&'static str, &'static str)]) -> bool {
    let mut request = BTreeMap::<_, Vec<_>>::new();
    for (name, value) in headers {
        request.entry(*name).or_default().push(*value);
    }
    let text = format!("prefix: '' headers {{ {text} }}");
    matcher(&text).matches("/s/m", &Request(request), no_random)
}

#[test]
fn c182_prefix_matches_the_beginning_of_a_path() {
    for all in ["", "/"] {
        assert!(path(&format!("prefix: '{all}'"), "/s/m"));
    }
    assert!(path("prefix: '/s/'", "/s/m"));
    assert!(path("prefix: '/s/m'", "/s/m"));
    for never in ["s", "/s/m/", "/s/mm", "/S/"] {
        assert!(!path(&format!("prefix: '{never}'"), "/s/m"), "{never}");
    }
}

#[test]
fn c183_path_match_is_case_sensitive_by_default() {
    let without_case = "case_sensitive { value: false }";
    for text in ["prefix: '/S/'", "path: '/S/M'"] {
        assert!(!path(text, "/s/m"));
        assert!(!path(
            &format!("{text} case_sensitive {{ value: true }}"),
            "/s/m"
        ));
        assert!(path(&format!("{text} {without_case}"), "/s/m"));
    }
}

#[test]
fn c183_non_ascii_texts_are_compared_bytewise() {
    assert!(path("prefix: '/ä' case_sensitive { value: false }", "/ä/m"));
    // The prefix ends within a character of the path.
    assert!(!path(
        "prefix: '/ab' case_sensitive { value: false }",
        "/aä"
    ));
    assert!(!path("prefix: '/ab'", "/aä"));
}

#[test]
fn c224_exact_path_and_regex_match_the_whole_path() {
    assert!(path("path: '/s/m'", "/s/m"));
    assert!(!path("path: '/s/'", "/s/m"));
    assert!(path("safe_regex { regex: '/s/.*' }", "/s/m"));
    assert!(!path("safe_regex { regex: '/s/' }", "/s/m"));
    // The shorter alternative does not match the whole value.
    assert!(path("safe_regex { regex: '/s|/s/m' }", "/s/m"));
    assert!(header(
        "name: 'h' safe_regex_match { regex: 'a|ab' }",
        &[("h", "ab")]
    ));
    assert!(!header(
        "name: 'h' safe_regex_match { regex: 'a' }",
        &[("h", "ab")]
    ));
    assert!(!header(
        "name: 'h' safe_regex_match { regex: 'a' }",
        &[("h", "a\n")]
    ));
}

#[test]
fn c185_each_header_matcher_matches() {
    for (text, yes, no) in [
        ("exact_match: 'ab'", "ab", "abc"),
        ("safe_regex_match { regex: 'a.' }", "ab", "abc"),
        ("range_match { start: -5 end: 5 }", "-5", "5"),
        ("prefix_match: 'ab'", "abc", "ba"),
        ("suffix_match: 'ab'", "cab", "abc"),
        ("contains_match: 'ab'", "cabc", "acb"),
        ("string_match { exact: 'ab' }", "ab", "AB"),
        (
            "string_match { exact: 'ab' ignore_case: true }",
            "AB",
            "abc",
        ),
        (
            "string_match { prefix: 'ab' ignore_case: true }",
            "ABC",
            "ba",
        ),
        (
            "string_match { suffix: 'ab' ignore_case: true }",
            "CAB",
            "abc",
        ),
        (
            "string_match { contains: 'ab' ignore_case: true }",
            "CABC",
            "acb",
        ),
        ("string_match { safe_regex { regex: 'ab' } }", "ab", "AB"),
        // gRFC A63: `ignore_case` does not apply to regular expressions.
        (
            "string_match { safe_regex { regex: 'ab' } ignore_case: true }",
            "ab",
            "AB",
        ),
    ] {
        let text = format!("name: 'H' {text}");
        assert!(header(&text, &[("h", yes)]), "{text} matches {yes}");
        assert!(!header(&text, &[("h", no)]), "{text} does not match {no}");
        let inverted = format!("{text} invert_match: true");
        assert!(
            !header(&inverted, &[("h", yes)]),
            "{inverted} does not match {yes}"
        );
        assert!(header(&inverted, &[("h", no)]), "{inverted} matches {no}");
        for text in [text, inverted] {
            assert!(!header(&text, &[]), "c225: {text} does not match absence");
        }
    }
}

#[test]
fn c225_several_header_values_are_joined_by_commas() {
    let two = [("h", "a"), ("h", "b")];
    assert!(header("name: 'h' exact_match: 'a,b'", &two));
    assert!(!header("name: 'h' exact_match: 'a'", &two));
}

#[test]
fn c225_absent_header_matches_only_present_match() {
    for (present, invert, matches_presence) in [
        (true, false, true),
        (true, true, false),
        (false, false, false),
        (false, true, true),
    ] {
        let text = format!("name: 'h' present_match: {present} invert_match: {invert}");
        assert_eq!(header(&text, &[("h", "x")]), matches_presence, "{text}");
        assert_eq!(header(&text, &[]), !matches_presence, "{text}");
        assert_eq!(
            header(&text, &[("h", "")]),
            matches_presence,
            "an empty header is there"
        );
    }
}

#[test]
fn c226_binary_pseudo_and_transport_headers_are_absent() {
    for name in ["x-bin", ":path", ":authority", "te", "grpc-timeout"] {
        let request = [(name, "x")];
        assert!(
            !header(&format!("name: '{name}' exact_match: 'x'"), &request),
            "{name}"
        );
        assert!(
            header(&format!("name: '{name}' present_match: false"), &request),
            "{name}"
        );
    }
}

#[test]
fn c226_content_type_is_always_grpc() {
    let text = "name: 'Content-Type' exact_match: 'application/grpc'";
    assert!(header(text, &[]));
    assert!(header(text, &[("content-type", "application/grpc+proto")]));
}

#[test]
fn c227_range_is_decimal_integers_and_excludes_its_end() {
    let range = |value: &'static str| {
        header(
            "name: 'h' range_match { start: -9 end: 2 }",
            &[("h", value)],
        )
    };
    for number in ["-9", "0", "1", "+1", "001"] {
        assert!(range(number), "{number}");
    }
    for other in [
        "2",
        "-10",
        "",
        " 1",
        "1 ",
        "1.0",
        "0x1",
        "one",
        "99999999999999999999",
        "1,1",
    ] {
        assert!(!range(other), "{other:?}");
    }
}

#[test]
fn c228_fraction_matches_its_share_of_random_numbers() {
    let share = |numerator: u32| {
        matcher(&format!(
            "prefix: '' runtime_fraction {{ default_value {{ numerator: {numerator} denominator: MILLION }} }}"
        ))
    };
    let matches = |numerator: u32, random: u64| {
        share(numerator).matches("/s/m", &Request(BTreeMap::new()), || random)
    };
    for random in [0, 1, u64::MAX / 2, u64::MAX] {
        assert!(!matches(0, random), "none of {random}");
        assert!(matches(1_000_000, random), "all of {random}");
    }
    // The first random number that is not within a quarter.
    let quarter = 1 << 62;
    assert!(matches(250_000, quarter - 1));
    assert!(!matches(250_000, quarter));
}

#[test]
fn c228_random_is_drawn_only_if_all_else_matches() {
    let text = "path: '/s/m' runtime_fraction { default_value { numerator: 100 } }";
    assert!(!matcher(text).matches("/other", &Request(BTreeMap::new()), no_random));
}
