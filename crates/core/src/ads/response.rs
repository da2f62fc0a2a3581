//! Judging a response: which resources are valid, and which rule the others break.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use oxds_types::discovery::{Any, Resource as Wrapper, ResourceError, Status};
use oxds_types::{ApiVersion, Kind};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::{Duplicates, Names};
use crate::resource::{Invalid, Resource};

/// What a SotW response may wrap its resources in.
const WRAPPERS: [&str; 2] = [
    "envoy.service.discovery.v3.Resource",
    "envoy.api.v2.Resource",
];

/// What the configuration says of responses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rules {
    pub(super) duplicates: Duplicates,
    pub(super) names: Names,
}

/// The resources of a response.
#[derive(Debug, Default)]
pub(super) struct Judged {
    rules: Rules,
    pub(super) accepted: Vec<Accepted>,
    pub(super) rejected: Vec<Rejected>,
    /// Duplicates: wrong of the response, and nothing that a watcher should hear of.
    twice: Vec<Invalid>,
    /// By name: what the server says instead of a resource (gRFC A88).
    pub(super) reported: Vec<(Arc<str>, Status)>,
    names: HashSet<Arc<str>>,
}

/// Judges every resource on its own: a bad one does not spoil the others (gRFC A46).
pub(super) fn judge<'a>(
    kind: &Kind,
    version: &str,
    resources: &[Any],
    rules: Rules,
    held: impl Fn(&str) -> Option<&'a Bytes>,
) -> Judged {
    let mut judged = Judged::by(rules);
    for (index, any) in resources.iter().enumerate() {
        let found = unwrap(any);
        let found = found.and_then(|(name, any)| resource(kind, name, &any, rules.names, &held));
        judged.take(index, version, found);
    }
    judged
}

/// The same for differences, where each resource has a version of its own. One without a body is a sign of life of what
/// was sent before, and nothing to judge.
pub(super) fn judge_difference<'a>(
    kind: &Kind,
    resources: Vec<Wrapper>,
    rules: Rules,
    held: impl Fn(&str) -> Option<&'a Bytes>,
) -> Judged {
    let mut judged = Judged::by(rules);
    for (index, wrapper) in resources.into_iter().enumerate() {
        if let Some(any) = &wrapper.resource {
            let name = Some(wrapper.name).filter(|name| !name.is_empty());
            let found = resource(kind, name, any, rules.names, &held);
            judged.take(index, &wrapper.version, found);
        }
    }
    judged
}

/// A valid resource.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) name: Arc<str>,
    /// Its own, or its response's.
    pub(super) version: String,
    pub(super) api: ApiVersion,
    /// `None` if the bytes are those held already.
    pub(super) content: Content,
}

/// An invalid one.
#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) invalid: Invalid,
    pub(super) version: String,
}

/// Bytes and their view, or `None` if the bytes are those held already.
type Content = Option<(Bytes, Resource)>;

/// A valid resource, by itself.
struct Found {
    name: Arc<str>,
    api: ApiVersion,
    content: Content,
}

fn resource<'a>(
    kind: &Kind,
    wrapped_name: Option<String>,
    any: &Any,
    names: Names,
    held: impl Fn(&str) -> Option<&'a Bytes>,
) -> Result<Found, Invalid> {
    let Some((found, api)) = Kind::from_type_url(&any.type_url) else {
        return Err(Invalid::new("must not be empty").at("type_url"));
    };
    if found != *kind {
        let rule = format!("must be a {}, not a {}", kind.message(), found.message());
        return Err(Invalid::new(rule).at("type_url"));
    }
    // A name that can be told without decoding the whole spares us that when nothing changed.
    let peeked = wrapped_name.as_deref().or_else(|| first_field(&any.value));
    let peeked = peeked.map(|name| names.spelling(name));
    if let Some(name) = &peeked
        && held(name) == Some(&any.value)
    {
        return Ok(Found {
            name: name.as_ref().into(),
            api,
            content: None,
        });
    }
    // Of either version: fields have kept their numbers, and those that v3 has given up count as unset (gRFC A30).
    let (own_name, resource) = Resource::parse(kind, &any.value).map_err(|mut invalid| {
        invalid.name = invalid
            .name
            .or_else(|| peeked.filter(|name| !name.is_empty()).map(Arc::from));
        invalid
    })?;
    let name = wrapped_name.map(Arc::from).or(own_name);
    let name = name.ok_or_else(|| Invalid::new("must be wrapped in a Resource with a name"))?;
    let name = match names.spelling(&name) {
        Cow::Borrowed(_) => name,
        Cow::Owned(spelling) => spelling.into(),
    };
    Ok(Found {
        name,
        api,
        content: Some((any.value.clone(), resource)),
    })
}

/// Takes a resource out of the wrapper that it may come in (client feature `xds.config.resource-in-sotw`).
fn unwrap(any: &Any) -> Result<(Option<String>, Any), Invalid> {
    let message = any.type_url.rsplit('/').next().unwrap_or_default();
    if !WRAPPERS.contains(&message) {
        return Ok((None, any.clone()));
    }
    let wrapper = Wrapper::decode(any.value.clone())?;
    let name = Some(wrapper.name).filter(|name| !name.is_empty());
    match wrapper.resource {
        Some(inner) => Ok((name, inner)),
        None => {
            let invalid = Invalid::new("must be set").at("resource");
            Err(match name {
                Some(name) => invalid.of(&name),
                None => invalid,
            })
        }
    }
}

/// The text in field 1, if it is the first: the name, in every kind that has a view.
fn first_field(value: &Bytes) -> Option<&str> {
    let mut rest = &value[..];
    let (1, WireType::LengthDelimited) = decode_key(&mut rest).ok()? else {
        return None;
    };
    let len = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
    let start = value.len() - rest.remaining();
    std::str::from_utf8(value.get(start..start.checked_add(len)?)?).ok()
}

/// The rule and where it is broken, without the name that the error's own text has already.
pub(super) fn without_name(invalid: &Invalid) -> String {
    let mut invalid = invalid.clone();
    invalid.name = None;
    invalid.to_string()
}

impl Judged {
    fn by(rules: Rules) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    fn take(&mut self, index: usize, version: &str, found: Result<Found, Invalid>) {
        let version = version.to_owned();
        match found {
            Ok(Found { name, api, content }) => {
                let first = self.names.insert(Arc::clone(&name));
                if first || self.rules.duplicates == Duplicates::Accept {
                    self.accepted.push(Accepted {
                        name,
                        version,
                        api,
                        content,
                    });
                } else {
                    let twice = Invalid::new("is in the response twice");
                    self.twice.push(twice.of(&name));
                }
            }
            Err(invalid) => {
                self.names.extend(invalid.name.clone());
                let invalid = match invalid.name {
                    None => invalid.at_index("resources", index),
                    Some(_) => invalid,
                };
                self.rejected.push(Rejected { invalid, version });
            }
        }
    }

    /// Whether there is a bad one whose name cannot be read: it may be any.
    pub(super) fn has_nameless(&self) -> bool {
        self.rejected
            .iter()
            .any(|rejected| rejected.invalid.name.is_none())
    }

    /// Takes over what the response says of single resources. Where it holds the resource too, that counts.
    pub(super) fn report(&mut self, errors: Vec<ResourceError>) {
        let names = self.rules.names;
        for error in errors {
            let name = error.resource_name;
            let name = name.map(|name| Arc::from(names.spelling(&name.name)));
            let Some(name) = name else { continue };
            if self.names.insert(Arc::clone(&name)) {
                let status = error.error_detail.unwrap_or_default();
                self.reported.push((name, status));
            }
        }
    }

    /// Whether the response says anything of the name: valid, invalid (C-104) or an error of the server's own.
    pub(super) fn names(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// How many are invalid, or are there twice where that is forbidden.
    pub(super) fn invalid(&self) -> usize {
        self.rejected.len() + self.twice.len()
    }

    /// The detail of the NACK, if there is one: every bad resource and its reason.
    pub(super) fn nack(&self, kind: &Kind) -> Option<String> {
        let rejected = self.rejected.iter().map(|rejected| &rejected.invalid);
        let faults = rejected.chain(&self.twice);
        let reasons: Vec<String> = faults.map(Invalid::to_string).collect();
        if reasons.is_empty() {
            return None;
        }
        Some(format!(
            "invalid {}: {}",
            kind.message(),
            reasons.join("; ")
        ))
    }
}
