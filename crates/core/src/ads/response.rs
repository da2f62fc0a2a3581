//! Judging a response: which resources are valid, and which rule the others break.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::discovery::{self, Any, Resource as Wrapper, ResourceError, Status};
use oxds_types::{ApiVersion, ResourceType};
use prost::Message;

use super::cache::{Cache, VersionText};
use super::{Duplicates, NameSyntax};
use crate::resource::{Invalid, ParsedResource, ResourceParsers, own_name};

/// What a SotW response may wrap its resources in.
const WRAPPERS: [&str; 2] = [
    "envoy.service.discovery.v3.Resource",
    "envoy.api.v2.Resource",
];

/// Well below what servers read of a request, 4 MiB by default.
const MOST_NACK_BYTES: usize = 1 << 16;

/// What responses of one kind are judged by.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub(super) resource_type: &'a ResourceType,
    pub(super) types: &'a ResourceParsers,
    pub(super) cache: &'a Cache,
    pub(super) duplicates: Duplicates,
    pub(super) names: NameSyntax,
}

/// The resources of a response.
#[derive(Debug, Default)]
pub(super) struct Judged {
    spelling: NameSyntax,
    pub(super) accepted: Vec<Accepted>,
    pub(super) rejected: Vec<Rejected>,
    /// Signs of life: what was sent before lives on for so long; without a time, for good.
    pub(super) heartbeats: Vec<(Arc<str>, Option<Duration>)>,
    /// NameSyntax by which there is nothing.
    pub(super) nothing_by_alias: Vec<Arc<str>>,
    /// Duplicates: wrong of the response, and nothing that a watcher should hear of.
    twice: Vec<Invalid>,
    /// By name: what the server says instead of a resource (gRFC A88).
    pub(super) reported: Vec<(Arc<str>, Status)>,
    names: HashSet<Arc<str>>,
    /// How many resources were decoded, once per type.
    pub(super) decoded: u64,
    /// How many were those that are held.
    pub(super) unchanged: u64,
}

/// A valid resource.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) name: Arc<str>,
    pub(super) aliases: Vec<Arc<str>>,
    /// Its own, or its response's.
    pub(super) version: VersionText,
    pub(super) api: ApiVersion,
    pub(super) ttl: Option<Duration>,
    /// `None` if the bytes are those held already.
    pub(super) content: Option<ParsedResource>,
}

/// An invalid one.
#[derive(Debug)]
pub(super) struct Rejected {
    pub(super) invalid: Invalid,
    pub(super) version: VersionText,
}

/// A resource as either variant of the protocol has it.
struct Element {
    name: Option<String>,
    aliases: Vec<String>,
    version: VersionText,
    ttl: Option<Duration>,
    body: Option<Any>,
}

impl Element {
    fn wrapped(wrapper: Wrapper, version: VersionText) -> Self {
        Self {
            name: Some(wrapper.name).filter(|name| !name.is_empty()),
            aliases: wrapper.aliases,
            version,
            ttl: wrapper.ttl.as_ref().and_then(duration),
            body: wrapper.resource,
        }
    }

    /// Takes a resource out of the wrapper that it may come in (client feature `xds.config.resource-in-sotw`).
    fn of_full_state(any: Any, version: &VersionText) -> Result<Self, Invalid> {
        let message = any.type_url.rsplit('/').next().unwrap_or_default();
        if WRAPPERS.contains(&message) {
            let wrapper = Wrapper::decode(any.value)?;
            return Ok(Self::wrapped(wrapper, version.clone()));
        }
        Ok(Self {
            name: None,
            aliases: Vec::new(),
            version: version.clone(),
            ttl: None,
            body: Some(any),
        })
    }
}

/// A valid resource, by itself.
struct Found {
    name: Arc<str>,
    api: ApiVersion,
    /// `None` if it is held already.
    content: Option<ParsedResource>,
}

impl Judge<'_> {
    /// Judges every resource on its own: a bad one does not spoil the others (gRFC A46).
    pub(super) fn full_state(&self, version: &str, resources: Vec<Any>) -> Judged {
        let (mut judged, version) = (Judged::of(self.names), VersionText::from(version));
        for (index, any) in resources.into_iter().enumerate() {
            match Element::of_full_state(any, &version) {
                Ok(element) => self.element(index, element, &mut judged),
                Err(invalid) => judged.reject(index, version.clone(), invalid),
            }
        }
        judged
    }

    /// The same for differences, where each resource has a version of its own.
    pub(super) fn difference(&self, resources: Vec<Wrapper>) -> Judged {
        let mut judged = Judged::of(self.names);
        for (index, mut wrapper) in resources.into_iter().enumerate() {
            let version = VersionText::from(&*std::mem::take(&mut wrapper.version));
            self.element(index, Element::wrapped(wrapper, version), &mut judged);
        }
        judged
    }

    fn element(&self, index: usize, element: Element, judged: &mut Judged) {
        let version = element.version.clone();
        let found = match (&element.body, &element.name) {
            (Some(any), name) => self.resource(name.as_deref(), any, judged),
            (None, Some(name)) => return judged.without_body(name, &element),
            (None, None) => Err(Invalid::new("must be set").at("resource")),
        };
        match found {
            Ok(found) => judged.accept(self.duplicates, found, element),
            Err(invalid) => judged.reject(index, version, invalid),
        }
    }

    fn resource(
        &self,
        wrapped_name: Option<&str>,
        any: &Any,
        judged: &mut Judged,
    ) -> Result<Found, Invalid> {
        let Some((found, api)) = ResourceType::from_type_url(&any.type_url) else {
            return Err(Invalid::new("must not be empty").at("type_url"));
        };
        if found != *self.resource_type {
            let (expected, found) = (self.resource_type.message(), found.message());
            let rule = format!("must be a {expected}, not a {found}");
            return Err(Invalid::new(rule).at("type_url"));
        }
        // A name that can be told without decoding the whole spares us that when nothing changed.
        let name =
            wrapped_name.map_or_else(|| own_name(&any.value), |name| Ok(Cow::Borrowed(name)))?;
        let name = self.names.spelling(&name);
        let held = self.cache.held(self.resource_type, &name);
        if let Some((name, held)) = held
            && held.resource.value() == any.value
        {
            judged.unchanged += 1;
            return Ok(Found {
                name: Arc::clone(name),
                api,
                content: None,
            });
        }
        // Of either version: fields have kept their numbers, and those that v3 has given up count as unset (gRFC A30).
        judged.decoded += self.types.len(self.resource_type) as u64;
        let read = self.types.read(self.resource_type, &any.value);
        let read = read.map_err(|mut invalid| {
            if !name.is_empty() {
                invalid.name = Some(Arc::from(&*name));
            }
            invalid
        })?;
        if name.is_empty() {
            let rule = "must have a name, or be wrapped in a ParsedResource that has one";
            return Err(Invalid::new(rule));
        }
        let name = held.map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        Ok(Found {
            name,
            api,
            content: Some(read),
        })
    }
}

/// The rule and where it is broken, without the name that the error's own text has already.
pub(super) fn without_name(invalid: &Invalid) -> String {
    let mut invalid = invalid.clone();
    invalid.name = None;
    invalid.to_string()
}

/// `None` for one that is negative or out of bounds.
fn duration(proto: &discovery::Duration) -> Option<Duration> {
    let seconds = u64::try_from(proto.seconds).ok()?;
    let nanos = u32::try_from(proto.nanos).ok()?;
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into())))
}

impl Judged {
    fn of(spelling: NameSyntax) -> Self {
        Self {
            spelling,
            ..Self::default()
        }
    }

    fn accept(
        &mut self,
        duplicates: Duplicates,
        Found { name, api, content }: Found,
        element: Element,
    ) {
        let first = self.names.insert(Arc::clone(&name));
        if !first && duplicates == Duplicates::Reject {
            let twice = Invalid::new("is in the response twice");
            return self.twice.push(twice.of(&name));
        }
        self.accepted.push(Accepted {
            name,
            aliases: element.aliases.into_iter().map(Arc::from).collect(),
            version: element.version,
            api,
            ttl: element.ttl,
            content,
        });
    }

    fn reject(&mut self, index: usize, version: VersionText, invalid: Invalid) {
        self.names.extend(invalid.name.clone());
        let invalid = match invalid.name {
            None => invalid.at_index("resources", index),
            Some(_) => invalid,
        };
        self.rejected.push(Rejected { invalid, version });
    }

    /// A sign of life of what was sent before; or, where it says under which alias it was asked for, that there is none
    /// (as Envoy's VHDS has it).
    fn without_body(&mut self, name: &str, element: &Element) {
        let name: Arc<str> = self.spelling.spelling(name).into();
        self.names.insert(Arc::clone(&name));
        if element.ttl.is_none() && !element.aliases.is_empty() {
            let aliases = element
                .aliases
                .iter()
                .map(|alias| Arc::from(alias.as_str()));
            return self.nothing_by_alias.extend(aliases);
        }
        self.heartbeats.push((name, element.ttl));
    }

    /// Whether there is nothing in it but signs of life.
    pub(super) fn is_heartbeat(&self) -> bool {
        !self.heartbeats.is_empty() && self.accepted.is_empty() && self.rejected.is_empty()
    }

    /// Whether there is a bad one whose name cannot be read: it may be any.
    pub(super) fn has_nameless(&self) -> bool {
        self.rejected
            .iter()
            .any(|rejected| rejected.invalid.name.is_none())
    }

    /// Takes over what the response says of single resources. Where it holds the resource too, that counts.
    pub(super) fn report(&mut self, errors: Vec<ResourceError>) {
        for error in errors {
            let name = error
                .resource_name
                .map(|name| Arc::from(self.spelling.spelling(&name.name)));
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

    /// The detail of the NACK, if there is one: every bad resource and its reason, as far as servers can be expected to
    /// take it.
    pub(super) fn nack(&self, resource_type: &ResourceType) -> Option<String> {
        let rejected = self.rejected.iter().map(|rejected| &rejected.invalid);
        let mut faults = rejected.chain(&self.twice);
        let mut text = format!("invalid {}: {}", resource_type.message(), faults.next()?);
        for (index, fault) in faults.enumerate() {
            if text.len() > MOST_NACK_BYTES {
                let more = self.rejected.len() + self.twice.len() - index - 1;
                text.push_str(&format!("; and {more} more"));
                break;
            }
            text.push_str(&format!("; {fault}"));
        }
        Some(text)
    }
}
