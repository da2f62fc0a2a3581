//! C-235: hashes of requests. The expected values are XXH64 of the header values, computed with the reference library.

use std::borrow::Cow;

use oxds_core::lb::{HashPolicy, HashSource, Headers, Rewrite, request_hash};
use regex::Regex;

const CHANNEL: u64 = 42;
/// XXH64 of "abc" with seed 0: a published test vector.
const ABC: u64 = 0x44BC_2CF5_AD77_0999;
/// XXH64 of the empty text with seed 0: a published test vector.
const EMPTY: u64 = 0xEF46_DB37_51D8_E999;

/// Headers with one value each.
struct Pairs(&'static [(&'static str, &'static str)]);

impl Headers for Pairs {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.0.iter().find(|(known, _)| *known == name)?;
        Some(Cow::Borrowed(found.1))
    }
}

const HEADERS: Pairs = Pairs(&[
    ("user", "abc"),
    ("path", "/abc/def"),
    ("empty", ""),
    ("token-bin", "abc"),
]);

fn header(name: &str) -> HashPolicy {
    rewritten(name, None)
}

fn rewritten(name: &str, rewrite: Option<Rewrite>) -> HashPolicy {
    HashPolicy {
        source: HashSource::Header {
            name: name.into(),
            rewrite,
        },
        terminal: false,
    }
}

fn terminal(policy: HashPolicy) -> HashPolicy {
    HashPolicy {
        terminal: true,
        ..policy
    }
}

fn hash(policies: &[HashPolicy]) -> Option<u64> {
    request_hash(policies, &HEADERS, CHANNEL)
}

#[test]
fn c235_header_is_hashed_with_xxh64() {
    assert_eq!(hash(&[header("user")]), Some(ABC));
    assert_eq!(hash(&[header("empty")]), Some(EMPTY));
}

#[test]
fn c235_absent_and_binary_headers_have_no_hash() {
    assert_eq!(hash(&[]), None);
    assert_eq!(hash(&[header("absent")]), None);
    assert_eq!(hash(&[header("token-bin")]), None);
    assert_eq!(hash(&[header("absent"), header("user")]), Some(ABC));
}

#[test]
fn c235_hashes_are_rotated_and_combined() {
    let both = ABC.rotate_left(1) ^ ABC;
    assert_eq!(hash(&[header("user"), header("user")]), Some(both));
    let channel = HashPolicy {
        source: HashSource::ChannelId,
        terminal: false,
    };
    assert_eq!(hash(std::slice::from_ref(&channel)), Some(CHANNEL));
    let both = ABC.rotate_left(1) ^ CHANNEL;
    assert_eq!(hash(&[header("user"), channel]), Some(both));
}

#[test]
fn c235_terminal_policy_ends_the_list_once_there_is_a_hash() {
    let user = terminal(header("user"));
    assert_eq!(hash(&[user, header("path")]), Some(ABC));
    let absent = terminal(header("absent"));
    assert_eq!(hash(&[absent.clone(), header("user")]), Some(ABC));
    // A hash of an earlier policy counts, too.
    assert_eq!(hash(&[header("user"), absent, header("path")]), Some(ABC));
}

#[test]
fn c235_regex_rewrite_uses_groups_as_re2_does() {
    let rewrite = |pattern: &str, substitution: &str| {
        Rewrite::new(Regex::new(pattern).unwrap(), substitution)
    };
    let path = |rewrite| hash(&[rewritten("path", rewrite)]);
    assert_eq!(path(rewrite("^/(.*)/.*$", r"\1")), Some(ABC));
    assert_eq!(path(rewrite(".*", "abc")), Some(ABC));
    // `$1` is plain text in RE2.
    assert_ne!(path(rewrite("^/(.*)/.*$", "$1")), Some(ABC));
    assert_eq!(rewrite("a", r"\1"), None);
    assert_eq!(rewrite("a", r"\x"), None);
    assert_eq!(rewrite("a", r"x\"), None);
}
