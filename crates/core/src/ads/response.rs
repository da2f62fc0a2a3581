//! Judging a response: which resources are valid, and which rule the others break.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use oxds_types::Kind;
use oxds_types::discovery::{Any, Resource as Wrapper, ResourceError, Status};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::{Duplicates, canonical};
use crate::resource::{Invalid, Resource};

/// What a SotW response may wrap its resources in.
const WRAPPERS: [&str; 2] = [
    "envoy.service.discovery.v3.Resource",
    "envoy.api.v2.Resource",
];

/// The resources of a response.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) accepted: Vec<Accepted>,
    pub(super) rejected: Vec<Invalid>,
    /// Duplicates: wrong of the response, and nothing that a watcher should hear of.
    twice: Vec<Invalid>,
    /// By name: what the server says instead of a resource (gRFC A88).
    pub(super) reported: Vec<(Arc<str>, Status)>,
    names: HashSet<Arc<str>>,
}

/// Judges every resource on its own: a bad one does not spoil the others (gRFC A46).
pub(super) fn judge<'a>(
    kind: &Kind,
    resources: &[Any],
    duplicates: Duplicates,
    held: impl Fn(&str) -> Option<&'a Bytes>,
) -> Judged {
    let mut judged = Judged::default();
    for (index, any) in resources.iter().enumerate() {
        match resource(kind, any, &held) {
            Ok((name, resource)) => {
                let first = judged.names.insert(Arc::clone(&name));
                if first || duplicates == Duplicates::Accept {
                    judged.accepted.push((name, resource));
                } else {
                    let twice = Invalid::new("is in the response twice");
                    judged.twice.push(twice.of(&name));
                }
            }
            Err(invalid) => {
                judged.names.extend(invalid.name.clone());
                let nameless = invalid.name.is_none();
                judged.rejected.push(if nameless {
                    invalid.at_index("resources", index)
                } else {
                    invalid
                });
            }
        }
    }
    judged
}

/// A name, its bytes and their view, or `None` if the bytes are those held already.
type Accepted = (Arc<str>, Option<(Bytes, Resource)>);

fn resource<'a>(
    kind: &Kind,
    any: &Any,
    held: impl Fn(&str) -> Option<&'a Bytes>,
) -> Result<Accepted, Invalid> {
    let (wrapped_name, any) = unwrap(any)?;
    let Some((found, _)) = Kind::from_type_url(&any.type_url) else {
        return Err(Invalid::new("must not be empty").at("type_url"));
    };
    if found != *kind {
        let rule = format!("must be a {}, not a {}", kind.message(), found.message());
        return Err(Invalid::new(rule).at("type_url"));
    }
    // A name that can be told without decoding the whole spares us that when nothing changed.
    let peeked = wrapped_name.as_deref().or_else(|| first_field(&any.value));
    let peeked = peeked.map(canonical);
    if let Some(name) = &peeked
        && held(name) == Some(&any.value)
    {
        return Ok((name.as_ref().into(), None));
    }
    let (own_name, resource) = Resource::parse(kind, &any.value).map_err(|mut invalid| {
        invalid.name = invalid
            .name
            .or_else(|| peeked.filter(|name| !name.is_empty()).map(Arc::from));
        invalid
    })?;
    let name = wrapped_name.map(Arc::from).or(own_name);
    let name = name.ok_or_else(|| Invalid::new("must be wrapped in a Resource with a name"))?;
    let name = match canonical(&name) {
        Cow::Borrowed(_) => name,
        Cow::Owned(canonical) => canonical.into(),
    };
    Ok((name, Some((any.value.clone(), resource))))
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
    /// Takes over what the response says of single resources. Where it holds the resource too, that counts.
    pub(super) fn report(&mut self, errors: Vec<ResourceError>) {
        for error in errors {
            let name = error
                .resource_name
                .map(|name| Arc::from(canonical(&name.name)));
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

    /// The detail of the NACK, if there is one: every bad resource and its reason.
    pub(super) fn nack(&self, kind: &Kind) -> Option<String> {
        let faults = self.rejected.iter().chain(&self.twice);
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
