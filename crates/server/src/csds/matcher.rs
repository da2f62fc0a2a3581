//! Node matchers: the nodes that a request selects.

use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::r#type::matcher::v3 as proto;
use envoy_types::pb::envoy::r#type::matcher::v3::{
    double_matcher, list_matcher, string_matcher, struct_matcher, value_matcher,
};
use envoy_types::pb::google::protobuf::{Value, value};
use regex::Regex;

/// The largest depth of matchers in `or` and lists. Real matchers are not this deep; a request could overflow the
/// stack.
const MAX_DEPTH: usize = 16;

/// A node matcher that is malformed or not supported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidMatcher {
    #[error("node_matchers: empty matcher: expected a pattern")]
    NoPattern,
    #[error("node_matchers: custom matchers are not supported")]
    Custom,
    #[error("node_matchers: safe_regex: {0}")]
    Regex(String),
    #[error("node_matchers: nested too deep: expected at most {MAX_DEPTH} levels")]
    TooDeep,
}

/// A parsed `NodeMatcher` message: the id and all metadata matchers must match.
#[derive(Debug)]
pub(super) struct ClientMatcher {
    id: Option<TextMatcher>,
    metadata: Vec<(Vec<String>, ValueMatcher)>,
}

#[derive(Debug)]
enum ValueMatcher {
    Null,
    Exactly(f64),
    /// At least the first number and less than the second.
    Between(f64, f64),
    Text(TextMatcher),
    Bool(bool),
    Present(bool),
    OneOf(Box<ValueMatcher>),
    Any(Vec<ValueMatcher>),
}

#[derive(Debug)]
struct TextMatcher {
    pattern: Pattern,
    ignore_case: bool,
}

#[derive(Debug)]
enum Pattern {
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    Regex(Regex),
}

impl ClientMatcher {
    pub(super) fn new(proto: &proto::NodeMatcher) -> Result<Self, InvalidMatcher> {
        let metadata = proto.node_metadatas.iter().map(|matcher| {
            let segments = matcher.path.iter().map(|segment| match &segment.segment {
                Some(struct_matcher::path_segment::Segment::Key(key)) => Ok(key.clone()),
                None => Err(InvalidMatcher::NoPattern),
            });
            let value = matcher.value.as_ref().ok_or(InvalidMatcher::NoPattern)?;
            Ok((
                segments.collect::<Result<_, _>>()?,
                ValueMatcher::new(value, 0)?,
            ))
        });
        Ok(Self {
            id: proto.node_id.as_ref().map(TextMatcher::new).transpose()?,
            metadata: metadata.collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn matches(&self, node: &Node) -> bool {
        let id = self.id.as_ref().is_none_or(|id| id.matches(&node.id));
        id && self
            .metadata
            .iter()
            .all(|(path, matcher)| matcher.matches(find(node, path)))
    }
}

/// Returns the value at a path of the node's metadata.
fn find<'a>(node: &'a Node, path: &[String]) -> Option<&'a Value> {
    let (last, way) = path.split_last()?;
    let mut fields = &node.metadata.as_ref()?.fields;
    for segment in way {
        match &fields.get(segment)?.kind {
            Some(value::Kind::StructValue(inner)) => fields = &inner.fields,
            _ => return None,
        }
    }
    fields.get(last)
}

impl ValueMatcher {
    fn new(proto: &proto::ValueMatcher, depth: usize) -> Result<Self, InvalidMatcher> {
        use value_matcher::MatchPattern;
        if depth >= MAX_DEPTH {
            return Err(InvalidMatcher::TooDeep);
        }
        Ok(
            match proto
                .match_pattern
                .as_ref()
                .ok_or(InvalidMatcher::NoPattern)?
            {
                MatchPattern::NullMatch(_) => Self::Null,
                MatchPattern::DoubleMatch(double) => match &double.match_pattern {
                    Some(double_matcher::MatchPattern::Exact(number)) => Self::Exactly(*number),
                    Some(double_matcher::MatchPattern::Range(range)) => {
                        Self::Between(range.start, range.end)
                    }
                    None => return Err(InvalidMatcher::NoPattern),
                },
                MatchPattern::StringMatch(text) => Self::Text(TextMatcher::new(text)?),
                MatchPattern::BoolMatch(expected) => Self::Bool(*expected),
                MatchPattern::PresentMatch(expected) => Self::Present(*expected),
                MatchPattern::ListMatch(list) => match &list.match_pattern {
                    Some(list_matcher::MatchPattern::OneOf(element)) => {
                        Self::OneOf(Box::new(Self::new(element, depth + 1)?))
                    }
                    None => return Err(InvalidMatcher::NoPattern),
                },
                MatchPattern::OrMatch(or) => {
                    let matchers = or.value_matchers.iter();
                    Self::Any(
                        matchers
                            .map(|matcher| Self::new(matcher, depth + 1))
                            .collect::<Result<_, _>>()?,
                    )
                }
            },
        )
    }

    fn matches(&self, value: Option<&Value>) -> bool {
        use value::Kind;
        let kind = value.and_then(|value| value.kind.as_ref());
        match (self, kind) {
            (Self::Present(expected), _) => kind.is_some() == *expected,
            (Self::Any(matchers), _) => matchers.iter().any(|matcher| matcher.matches(value)),
            (Self::Null, Some(Kind::NullValue(_))) => true,
            (Self::Exactly(expected), Some(Kind::NumberValue(number))) => number == expected,
            (Self::Between(from, to), Some(Kind::NumberValue(number))) => {
                (from..to).contains(&number)
            }
            (Self::Text(text), Some(Kind::StringValue(value))) => text.matches(value),
            (Self::Bool(expected), Some(Kind::BoolValue(value))) => value == expected,
            (Self::OneOf(element), Some(Kind::ListValue(list))) => {
                list.values.iter().any(|value| element.matches(Some(value)))
            }
            _ => false,
        }
    }
}

impl TextMatcher {
    fn new(proto: &proto::StringMatcher) -> Result<Self, InvalidMatcher> {
        use string_matcher::MatchPattern;
        let ignore_case = proto.ignore_case;
        // `string.proto`: `ignore_case` is about ASCII, and has no effect on regular expressions.
        let folded = |text: &String| {
            if ignore_case {
                text.to_ascii_lowercase()
            } else {
                text.clone()
            }
        };
        let pattern = match proto
            .match_pattern
            .as_ref()
            .ok_or(InvalidMatcher::NoPattern)?
        {
            MatchPattern::Exact(text) => Pattern::Exact(folded(text)),
            MatchPattern::Prefix(text) => Pattern::Prefix(folded(text)),
            MatchPattern::Suffix(text) => Pattern::Suffix(folded(text)),
            MatchPattern::Contains(text) => Pattern::Contains(folded(text)),
            MatchPattern::SafeRegex(matcher) => {
                // `regex.proto`: the whole text has to match.
                let regex = Regex::new(&format!("^(?:{})$", matcher.regex));
                Pattern::Regex(regex.map_err(|error| InvalidMatcher::Regex(error.to_string()))?)
            }
            MatchPattern::Custom(_) => return Err(InvalidMatcher::Custom),
        };
        Ok(Self {
            pattern,
            ignore_case,
        })
    }

    fn matches(&self, text: &str) -> bool {
        let folded = self.ignore_case.then(|| text.to_ascii_lowercase());
        let folded = folded.as_deref().unwrap_or(text);
        match &self.pattern {
            Pattern::Exact(pattern) => folded == pattern,
            Pattern::Prefix(pattern) => folded.starts_with(&**pattern),
            Pattern::Suffix(pattern) => folded.ends_with(&**pattern),
            Pattern::Contains(pattern) => folded.contains(&**pattern),
            Pattern::Regex(regex) => regex.is_match(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::r#type::v3::DoubleRange;
    use envoy_types::pb::google::protobuf::{ListValue, Struct};

    use super::*;

    fn text(pattern: string_matcher::MatchPattern, ignore_case: bool) -> proto::StringMatcher {
        proto::StringMatcher {
            ignore_case,
            match_pattern: Some(pattern),
        }
    }

    fn by_id(matcher: proto::StringMatcher) -> ClientMatcher {
        ClientMatcher::new(&proto::NodeMatcher {
            node_id: Some(matcher),
            node_metadatas: Vec::new(),
        })
        .unwrap()
    }

    fn node(id: &str) -> Node {
        let string = |text: &str| Value {
            kind: Some(value::Kind::StringValue(text.into())),
        };
        let inner = Struct {
            fields: [("tier".to_owned(), string("gold"))].into(),
        };
        let app = Value {
            kind: Some(value::Kind::StructValue(inner)),
        };
        Node {
            id: id.into(),
            metadata: Some(Struct {
                fields: [("app".to_owned(), app)].into(),
            }),
            ..Node::default()
        }
    }

    #[test]
    fn s68_nodes_are_matched_by_id() {
        use string_matcher::MatchPattern::{Contains, Exact, Prefix, SafeRegex, Suffix};
        let regex = |regex: &str| {
            SafeRegex(proto::RegexMatcher {
                regex: regex.into(),
                ..proto::RegexMatcher::default()
            })
        };
        for (pattern, ignore_case, expected) in [
            (Exact("Edge-1".into()), false, true),
            (Exact("edge-1".into()), false, false),
            (Exact("edge-1".into()), true, true),
            (Prefix("Edge".into()), false, true),
            (Suffix("-1".into()), false, true),
            (Contains("DGE".into()), true, true),
            (regex("Edge-[0-9]"), false, true),
            (regex("Edge"), false, false),
        ] {
            let what = format!("{pattern:?} {ignore_case}");
            assert_eq!(
                by_id(text(pattern, ignore_case)).matches(&node("Edge-1")),
                expected,
                "{what}"
            );
        }
    }

    #[test]
    fn s68_nodes_are_matched_by_metadata() {
        let matcher = |key: &str, pattern| {
            let segment = |key: &str| struct_matcher::PathSegment {
                segment: Some(struct_matcher::path_segment::Segment::Key(key.into())),
            };
            ClientMatcher::new(&proto::NodeMatcher {
                node_id: None,
                node_metadatas: vec![proto::StructMatcher {
                    path: vec![segment("app"), segment(key)],
                    value: Some(proto::ValueMatcher {
                        match_pattern: Some(pattern),
                    }),
                }],
            })
            .unwrap()
        };
        let gold = || {
            let gold = string_matcher::MatchPattern::Exact("gold".into());
            value_matcher::MatchPattern::StringMatch(text(gold, false))
        };
        let present = value_matcher::MatchPattern::PresentMatch;
        assert!(matcher("tier", gold()).matches(&node("a")));
        assert!(!matcher("tier", gold()).matches(&Node::default()));
        assert!(!matcher("other", gold()).matches(&node("a")));
        assert!(matcher("other", present(false)).matches(&node("a")));
        assert!(!matcher("tier", present(false)).matches(&node("a")));
    }

    /// Each value matcher, with a value that it matches and one that it does not match.
    #[test]
    fn s68_every_value_matcher_matches() {
        use value::Kind as V;
        use value_matcher::MatchPattern as M;
        let of = |kind| Value { kind: Some(kind) };
        let list = |numbers: &[f64]| {
            let values = numbers.iter().map(|n| of(V::NumberValue(*n))).collect();
            V::ListValue(ListValue { values })
        };
        let double = |pattern| {
            M::DoubleMatch(proto::DoubleMatcher {
                match_pattern: Some(pattern),
            })
        };
        let exactly = |number| double(double_matcher::MatchPattern::Exact(number));
        let matcher = |pattern| proto::ValueMatcher {
            match_pattern: Some(pattern),
        };
        let from_to = double(double_matcher::MatchPattern::Range(DoubleRange {
            start: 1.0,
            end: 2.0,
        }));
        let one_of = M::ListMatch(Box::new(proto::ListMatcher {
            match_pattern: Some(list_matcher::MatchPattern::OneOf(Box::new(matcher(
                exactly(7.0),
            )))),
        }));
        let either = M::OrMatch(proto::OrMatcher {
            value_matchers: vec![matcher(exactly(1.0)), matcher(M::BoolMatch(true))],
        });
        let null = || M::NullMatch(value_matcher::NullMatch::default());
        for (pattern, yes, no) in [
            (null(), V::NullValue(0), V::BoolValue(false)),
            (exactly(1.5), V::NumberValue(1.5), V::NumberValue(1.0)),
            (from_to.clone(), V::NumberValue(1.0), V::NumberValue(2.0)),
            (from_to, V::NumberValue(1.9), V::StringValue("1.5".into())),
            (M::BoolMatch(false), V::BoolValue(false), V::NullValue(0)),
            (one_of.clone(), list(&[3.0, 7.0]), list(&[3.0])),
            (one_of, list(&[7.0]), V::NumberValue(7.0)),
            (either.clone(), V::NumberValue(1.0), V::NumberValue(2.0)),
            (either, V::BoolValue(true), V::BoolValue(false)),
        ] {
            let built = ValueMatcher::new(&matcher(pattern.clone()), 0).unwrap();
            assert!(built.matches(Some(&of(yes))), "{pattern:?}");
            assert!(!built.matches(Some(&of(no))), "{pattern:?}");
            assert!(!built.matches(None), "{pattern:?}");
        }
    }

    #[test]
    fn s68_empty_matchers_are_invalid() {
        let bad = proto::RegexMatcher {
            regex: "(".into(),
            ..proto::RegexMatcher::default()
        };
        for matcher in [
            proto::StringMatcher::default(),
            text(string_matcher::MatchPattern::SafeRegex(bad), false),
        ] {
            let proto = proto::NodeMatcher {
                node_id: Some(matcher),
                node_metadatas: Vec::new(),
            };
            assert!(ClientMatcher::new(&proto).is_err());
        }
        let mut nested = proto::ValueMatcher::default();
        for _ in 0..1000 {
            nested = proto::ValueMatcher {
                match_pattern: Some(value_matcher::MatchPattern::OrMatch(proto::OrMatcher {
                    value_matchers: vec![nested],
                })),
            };
        }
        assert_eq!(
            ValueMatcher::new(&nested, 0).unwrap_err(),
            InvalidMatcher::TooDeep
        );
    }
}
