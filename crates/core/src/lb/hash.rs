//! Hash of a request, for policies that send equal requests to the same endpoint (gRFC A42).
//!
//! ```text
//!  policies, in order ─► hash of each ─► rotate the result, XOR ─► the first terminal policy with a result ends the list
//! ```

use std::borrow::Cow;

use regex::Regex;
use xxhash_rust::xxh64::xxh64;

use super::matcher::{Headers, visible};

/// One hash policy of a route.
#[derive(Debug, Clone, PartialEq)]
pub struct HashPolicy {
    /// Part of the request that is hashed.
    pub source: HashSource,
    /// Whether later policies are skipped if there is a hash after this one.
    pub terminal: bool,
}

/// Part of a request that is hashed.
#[derive(Debug, Clone, PartialEq)]
pub enum HashSource {
    /// Value of a header; several values are joined by commas.
    Header {
        /// Name, in lower case.
        name: Box<str>,
        /// Rewrite of the value before it is hashed.
        rewrite: Option<Rewrite>,
    },
    /// The channel: all of its requests have the same hash (`filter_state` with the key `io.grpc.channel_id`).
    ChannelId,
}

/// Replacement of every match of an expression.
#[derive(Debug, Clone)]
pub struct Rewrite {
    pattern: Regex,
    parts: Vec<SubstitutionPart>,
}

/// Part of a substitution.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SubstitutionPart {
    Text(String),
    Group(usize),
}

impl Rewrite {
    /// Makes a rewrite of the matches of `pattern`. In the substitution, `\0` to `\9` stand for groups and `\\` for a
    /// backslash, as in RE2. Returns `None` for a substitution with another escape, or with a group that the pattern
    /// does not have: RE2 replaces nothing then.
    #[must_use]
    pub fn new(pattern: Regex, substitution: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = substitution.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('\\')) => text.push('\\'),
                ('\\', Some(digit)) => {
                    let group = usize::try_from(digit.to_digit(10)?).ok()?;
                    if group >= pattern.captures_len() {
                        return None;
                    }
                    parts.push(SubstitutionPart::Text(std::mem::take(&mut text)));
                    parts.push(SubstitutionPart::Group(group));
                }
                ('\\', None) => return None,
                (c, _) => text.push(c),
            }
        }
        parts.push(SubstitutionPart::Text(text));
        Some(Self { pattern, parts })
    }

    fn apply<'a>(&self, value: &'a str) -> Cow<'a, str> {
        self.pattern
            .replace_all(value, |found: &regex::Captures<'_>| {
                let text = |part: &SubstitutionPart| match part {
                    SubstitutionPart::Text(text) => text.clone(),
                    SubstitutionPart::Group(group) => {
                        found.get(*group).map_or("", |m| m.as_str()).to_owned()
                    }
                };
                self.parts.iter().map(text).collect::<String>()
            })
    }
}

/// Regular expressions are equal if their texts are.
impl PartialEq for Rewrite {
    fn eq(&self, other: &Self) -> bool {
        self.pattern.as_str() == other.pattern.as_str() && self.parts == other.parts
    }
}

/// Returns the hash of a request; `None` if no policy has a result: then a random number takes its place (C-235).
pub fn request_hash(
    policies: &[HashPolicy],
    headers: &(impl Headers + ?Sized),
    channel_id: u64,
) -> Option<u64> {
    let mut hash: Option<u64> = None;
    for policy in policies {
        let result = match &policy.source {
            HashSource::Header { name, rewrite } => {
                visible(name, headers).map(|value| hash_value(&value, rewrite.as_ref()))
            }
            HashSource::ChannelId => Some(channel_id),
        };
        if let Some(result) = result {
            // Envoy and gRPC rotate, so that two equal policies do not cancel each other out.
            hash = Some(hash.unwrap_or(0).rotate_left(1) ^ result);
        }
        // gRFC A42: a terminal policy ends the list once there is a hash.
        if policy.terminal && hash.is_some() {
            break;
        }
    }
    hash
}

fn hash_value(value: &str, rewrite: Option<&Rewrite>) -> u64 {
    // gRFC A42: XXH64 with seed 0.
    match rewrite {
        Some(rewrite) => xxh64(rewrite.apply(value).as_bytes(), 0),
        None => xxh64(value.as_bytes(), 0),
    }
}
