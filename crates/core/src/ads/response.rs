//! Validation of a response: which of its resources are valid, and which rule the others break.
//!
//! Each resource is validated on its own. A valid one is applied although others are invalid, and every invalid one is
//! listed in the NACK (gRFC A46).

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use oxds_types::discovery::{Any, Resource as Wrapper, ResourceError, Status};
use oxds_types::{ApiVersion, ResourceType};
use prost::Message;

use super::cache::{Cache, VersionText};
use super::config::{Duplicates, NameSyntax};
use crate::resource::{Invalid, ParsedResource, ResourceCheck, ResourceParsers, own_name};
use crate::time::clamped_duration;

/// Messages in which a SotW response may wrap its resources.
const WRAPPERS: [&str; 2] = [
    "envoy.service.discovery.v3.Resource",
    "envoy.api.v2.Resource",
];

/// Bound of a NACK's text, in bytes: well below 4 MiB, the size of a request that servers accept by default.
const MAX_NACK_BYTES: usize = 1 << 16;

/// Content of one response, for metrics (gRFC A78). Resources that did not change count as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseSummary {
    /// Type of the resources.
    pub resource_type: ResourceType,
    /// Number of valid resources.
    pub valid: usize,
    /// Number of invalid resources.
    pub invalid: usize,
    /// Text of the NACK, with the reason for each invalid resource; `None` if the response was acknowledged.
    pub rejection: Option<String>,
    /// Names with a resource and an error in the same response: the resource counts, and the contradiction deserves a
    /// warning (gRFC A88).
    pub contradictions: Vec<Arc<str>>,
}

/// Rules by which responses of one type are validated.
#[derive(Debug)]
pub(super) struct ResponseValidator<'a> {
    pub(super) resource_type: &'a ResourceType,
    pub(super) parsers: &'a ResourceParsers,
    pub(super) check: Option<&'a ResourceCheck>,
    pub(super) cache: &'a Cache,
    pub(super) duplicates: Duplicates,
    pub(super) name_syntax: NameSyntax,
}

/// A response after validation.
#[derive(Debug, Default)]
pub(super) struct ValidatedResponse {
    name_syntax: NameSyntax,
    pub(super) valid: Vec<ValidResource>,
    pub(super) invalid: Vec<InvalidResource>,
    /// Heartbeats: name and new TTL of resources that were sent before; `None` means that the resource no longer
    /// expires.
    pub(super) heartbeats: Vec<(Arc<str>, Option<Duration>)>,
    /// Aliases for which the server reports that no resource exists.
    pub(super) missing_aliases: Vec<Arc<str>>,
    /// Duplicates: errors of the response, not of a resource, so watchers do not get them.
    duplicates: Vec<Invalid>,
    /// `resource_errors` of the response, by name (gRFC A88).
    pub(super) reported: Vec<(Arc<str>, Status)>,
    /// Names that are in `resource_errors` although the response has a resource for them.
    contradictions: Vec<Arc<str>>,
    /// Every name that the response mentions.
    names: HashSet<Arc<str>>,
    /// Number of parses, one per resource and parser.
    pub(super) decoded: u64,
    /// Number of resources that equal the cached ones.
    pub(super) unchanged: u64,
}

/// A valid resource of a response.
#[derive(Debug)]
pub(super) struct ValidResource {
    pub(super) name: Arc<str>,
    pub(super) aliases: Vec<Arc<str>>,
    /// Version of the resource on delta streams, of the response on SotW streams.
    pub(super) version: VersionText,
    pub(super) api: ApiVersion,
    /// Type URL, if it is not the usual one of the type in `api`.
    pub(super) unusual_type_url: Option<Arc<str>>,
    pub(super) ttl: Option<Duration>,
    /// `None` if the bytes equal those in the cache.
    pub(super) content: Option<ParsedResource>,
}

/// An invalid resource of a response.
#[derive(Debug)]
pub(super) struct InvalidResource {
    pub(super) invalid: Invalid,
    pub(super) version: VersionText,
}

/// A resource before validation, in the form that both protocol variants share.
struct UnparsedResource {
    name: Option<String>,
    aliases: Vec<String>,
    version: VersionText,
    ttl: Option<Duration>,
    body: Option<Any>,
}

impl UnparsedResource {
    fn from_wrapper(wrapper: Wrapper, version: VersionText) -> Self {
        Self {
            name: Some(wrapper.name).filter(|name| !name.is_empty()),
            aliases: wrapper.aliases,
            version,
            ttl: wrapper.ttl.as_ref().and_then(clamped_duration),
            body: wrapper.resource,
        }
    }

    /// Makes one from an element of a SotW response, and removes its wrapper if it has one.
    fn from_sotw(any: Any, version: &VersionText) -> Result<Self, Invalid> {
        let message = any.type_url.rsplit('/').next().unwrap_or_default();
        // Client feature `xds.config.resource-in-sotw`: a SotW resource may come in a `Resource` wrapper (C-83).
        if WRAPPERS.contains(&message) {
            let wrapper = Wrapper::decode(any.value)?;
            return Ok(Self::from_wrapper(wrapper, version.clone()));
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

/// Result of parsing one valid resource.
struct ParsedElement {
    name: Arc<str>,
    api: ApiVersion,
    /// `None` if the bytes equal those in the cache.
    content: Option<ParsedResource>,
}

impl ResponseValidator<'_> {
    /// Validates the resources of a SotW response. `version` is that of the response.
    pub(super) fn validate_sotw(&self, version: &str, resources: Vec<Any>) -> ValidatedResponse {
        let mut validated = ValidatedResponse::new(self.name_syntax);
        let version = VersionText::from(version);
        for (index, any) in resources.into_iter().enumerate() {
            match UnparsedResource::from_sotw(any, &version) {
                Ok(unparsed) => self.validate(index, unparsed, &mut validated),
                Err(invalid) => validated.add_invalid(index, version.clone(), invalid),
            }
        }
        validated
    }

    /// Validates the resources of a delta response, where each resource has its own version.
    pub(super) fn validate_delta(&self, resources: Vec<Wrapper>) -> ValidatedResponse {
        let mut validated = ValidatedResponse::new(self.name_syntax);
        for (index, mut wrapper) in resources.into_iter().enumerate() {
            let version = VersionText::from(&*std::mem::take(&mut wrapper.version));
            let unparsed = UnparsedResource::from_wrapper(wrapper, version);
            self.validate(index, unparsed, &mut validated);
        }
        validated
    }

    fn validate(
        &self,
        index: usize,
        unparsed: UnparsedResource,
        validated: &mut ValidatedResponse,
    ) {
        let version = unparsed.version.clone();
        let parsed = match (&unparsed.body, &unparsed.name) {
            (Some(any), name) => self.parse(name.as_deref(), any, validated),
            (None, Some(name)) => return validated.add_without_body(name, &unparsed),
            (None, None) => Err(Invalid::new("must be set").at("resource")),
        };
        // gRFC A46: an invalid resource does not affect the others (C-81).
        match parsed {
            Ok(parsed) => {
                let unusual_type_url = self.unusual_type_url(&parsed, &unparsed);
                validated.add_valid(self.duplicates, parsed, unparsed, unusual_type_url);
            }
            Err(invalid) => validated.add_invalid(index, version, invalid),
        }
    }

    fn unusual_type_url(
        &self,
        parsed: &ParsedElement,
        unparsed: &UnparsedResource,
    ) -> Option<Arc<str>> {
        let type_url = &unparsed.body.as_ref()?.type_url;
        (type_url != self.resource_type.type_url_on(parsed.api)).then(|| type_url.as_str().into())
    }

    fn parse(
        &self,
        wrapped_name: Option<&str>,
        any: &Any,
        validated: &mut ValidatedResponse,
    ) -> Result<ParsedElement, Invalid> {
        // gRFC A30: v2 and v3 type URLs are accepted alike, whatever version the stream has (C-55).
        let Some((found, api)) = ResourceType::from_type_url(&any.type_url) else {
            return Err(Invalid::new("must not be empty").at("type_url"));
        };
        if found != *self.resource_type {
            let (expected, found) = (self.resource_type.message(), found.message());
            let rule = format!("must be a {expected}, not a {found}");
            return Err(Invalid::new(rule).at("type_url"));
        }
        // Reading the name alone is cheap, and an unchanged resource needs no more than that.
        let name =
            wrapped_name.map_or_else(|| own_name(&any.value), |name| Ok(Cow::Borrowed(name)))?;
        let name = self.name_syntax.spelling(&name);
        let cached = self.cache.resource(self.resource_type, &name);
        if let Some((name, cached)) = cached
            && cached.resource.value() == any.value
        {
            // Bytes that equal the cached ones are acknowledged, but not parsed, and watchers get no event (C-86).
            validated.unchanged += 1;
            return Ok(ParsedElement {
                name: Arc::clone(name),
                api,
                content: None,
            });
        }
        // gRFC A30: v2 bytes are read as v3. Field numbers are the same, and fields that v3 removed count as unset
        // (C-57, C-58).
        validated.decoded += self.parsers.len(self.resource_type) as u64;
        let checked = match self.check {
            Some(check) => check.check(self.resource_type, &any.value),
            None => Ok(()),
        };
        let resource = checked.and_then(|()| self.parsers.parse(self.resource_type, &any.value));
        let resource = resource.map_err(|mut invalid| {
            if !name.is_empty() {
                invalid.name = Some(Arc::from(&*name));
            }
            invalid
        })?;
        if name.is_empty() {
            let rule = "must have a name, or be wrapped in a Resource that has one";
            return Err(Invalid::new(rule));
        }
        let name = cached.map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        Ok(ParsedElement {
            name,
            api,
            content: Some(resource),
        })
    }
}

/// Returns the rule and the field of an error, without the resource name.
pub(super) fn without_name(invalid: &Invalid) -> String {
    let mut invalid = invalid.clone();
    invalid.name = None;
    invalid.to_string()
}

impl ValidatedResponse {
    fn new(name_syntax: NameSyntax) -> Self {
        Self {
            name_syntax,
            ..Self::default()
        }
    }

    fn add_valid(
        &mut self,
        duplicates: Duplicates,
        ParsedElement { name, api, content }: ParsedElement,
        unparsed: UnparsedResource,
        unusual_type_url: Option<Arc<str>>,
    ) {
        let first = self.names.insert(Arc::clone(&name));
        // The protocol forbids duplicates; gRPC does not check, so the check is an option (C-82).
        if !first && duplicates == Duplicates::Reject {
            let duplicate = Invalid::new("is in the response twice");
            return self.duplicates.push(duplicate.of(&name));
        }
        self.valid.push(ValidResource {
            name,
            aliases: self.aliases(&unparsed),
            version: unparsed.version,
            api,
            unusual_type_url,
            ttl: unparsed.ttl,
            content,
        });
    }

    /// Returns the aliases of a resource. They are names, so every spelling is the same alias (xRFC TP1,
    /// "Normalization").
    fn aliases(&self, unparsed: &UnparsedResource) -> Vec<Arc<str>> {
        let aliases = unparsed.aliases.iter();
        let spelling = |alias: &String| Arc::from(&*self.name_syntax.spelling(alias));
        aliases.map(spelling).collect()
    }

    fn add_invalid(&mut self, index: usize, version: VersionText, invalid: Invalid) {
        // gRFC A46: an invalid resource is present, not deleted (C-104).
        self.names.extend(invalid.name.clone());
        // gRFC A46: the NACK has the index of a resource whose name is unknown (C-84).
        let invalid = match invalid.name {
            None => invalid.at_index("resources", index),
            Some(_) => invalid,
        };
        self.invalid.push(InvalidResource { invalid, version });
    }

    /// Adds a resource without a body: a heartbeat, or the report that no resource exists for an alias.
    fn add_without_body(&mut self, name: &str, unparsed: &UnparsedResource) {
        let name: Arc<str> = self.name_syntax.spelling(name).into();
        self.names.insert(Arc::clone(&name));
        // Envoy's VHDS: aliases without a body and without a TTL mean that no virtual host matches them.
        if unparsed.ttl.is_none() && !unparsed.aliases.is_empty() {
            let aliases = self.aliases(unparsed);
            return self.missing_aliases.extend(aliases);
        }
        self.heartbeats.push((name, unparsed.ttl));
    }

    /// Returns whether the response brings nothing: it is NACKed, and no part of it applies.
    pub(super) fn is_useless(&self) -> bool {
        let has_faults = !self.invalid.is_empty() || !self.duplicates.is_empty();
        let applies = !self.valid.is_empty()
            || !self.heartbeats.is_empty()
            || !self.missing_aliases.is_empty()
            || !self.reported.is_empty();
        has_faults && !applies
    }

    /// Returns whether the response has nothing but heartbeats.
    pub(super) fn is_heartbeat(&self) -> bool {
        !self.heartbeats.is_empty() && self.valid.is_empty() && self.invalid.is_empty()
    }

    /// Returns whether the name of an invalid resource could not be read: then it may be any resource.
    pub(super) fn has_nameless(&self) -> bool {
        self.invalid
            .iter()
            .any(|invalid| invalid.invalid.name.is_none())
    }

    /// Adds the `resource_errors` of the response. A name that is also in `resources` keeps the resource (C-115).
    pub(super) fn add_errors(&mut self, errors: Vec<ResourceError>) {
        let mut reported = HashSet::new();
        for error in errors {
            let name = error
                .resource_name
                .map(|name| Arc::<str>::from(self.name_syntax.spelling(&name.name)));
            let Some(name) = name else { continue };
            if self.names.contains(&name) {
                self.contradictions.push(name);
            } else if reported.insert(Arc::clone(&name)) {
                let status = error.error_detail.unwrap_or_default();
                self.reported.push((name, status));
            }
        }
        self.names.extend(reported);
    }

    /// Returns whether the response mentions the name: as a valid or invalid resource (C-104), or in `resource_errors`.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub(super) fn summary(&self, resource_type: &ResourceType) -> ResponseSummary {
        ResponseSummary {
            resource_type: resource_type.clone(),
            valid: self.valid.len(),
            invalid: self.invalid.len() + self.duplicates.len(),
            rejection: self.nack(resource_type),
            contradictions: self.contradictions.clone(),
        }
    }

    /// Returns the text of the NACK, or `None` for an ACK: every invalid resource with its reason, up to
    /// [`MAX_NACK_BYTES`].
    fn nack(&self, resource_type: &ResourceType) -> Option<String> {
        let invalid = self.invalid.iter().map(|invalid| &invalid.invalid);
        let mut errors = invalid.chain(&self.duplicates);
        let mut text = format!("invalid {}: {}", resource_type.message(), errors.next()?);
        for (index, error) in errors.enumerate() {
            if text.len() > MAX_NACK_BYTES {
                let more = self.invalid.len() + self.duplicates.len() - index - 1;
                text.push_str(&format!("; and {more} more"));
                break;
            }
            text.push_str(&format!("; {error}"));
        }
        Some(text)
    }
}
