//! Records of the state file, as protobuf messages. Tags and types never change in a format; `FORMAT` counts formats.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use oxds_core::group::NodeMatcher;
use oxds_core::snapshot::{Resource, ResourceOrigin};
use oxds_types::{Glob, Position, Reference, ResourceType};
use prost::Message;

use super::changes::Changes;
use super::path;

/// Format of the file. Another one is not read.
pub(super) const FORMAT: u32 = 1;

/// First record: what the state belongs to.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Begin {
    /// Source of the store.
    #[prost(string, tag = "1")]
    pub(super) identity: String,
    /// Version of oxds, for people.
    #[prost(string, tag = "2")]
    pub(super) build: String,
}

/// Last record of a checkpoint.
#[derive(Clone, PartialEq, Message)]
pub(super) struct End {
    /// Number of resources.
    #[prost(uint64, tag = "1")]
    pub(super) resources: u64,
    /// Number of groups with nodes.
    #[prost(uint64, tag = "2")]
    pub(super) groups: u64,
}

/// One atomic change, or a part of a checkpoint.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    /// Messages of resource types, to which the rest refers by index.
    #[prost(string, repeated, tag = "1")]
    types: Vec<String>,
    #[prost(message, repeated, tag = "2")]
    runs: Vec<Run>,
    #[prost(message, repeated, tag = "3")]
    groups: Vec<Group>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    position: Option<Bytes>,
    /// Milliseconds since 1970.
    #[prost(uint64, tag = "5")]
    saved_at: u64,
    /// Whether the store has secrets that are not saved.
    #[prost(bool, tag = "6")]
    lacks_secrets: bool,
}

/// Resources of one group, type and document.
#[derive(Clone, PartialEq, Message)]
struct Run {
    #[prost(string, optional, tag = "1")]
    group: Option<String>,
    #[prost(uint32, tag = "2")]
    resource_type: u32,
    /// Path of the document below the root.
    #[prost(bytes = "vec", optional, tag = "3")]
    document: Option<Vec<u8>>,
    #[prost(message, repeated, tag = "4")]
    puts: Vec<Put>,
    #[prost(string, repeated, tag = "5")]
    removals: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Put {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
    #[prost(message, optional, tag = "3")]
    ttl: Option<Ttl>,
    #[prost(message, repeated, tag = "4")]
    references: Vec<Target>,
    /// From 1; 0 if unknown.
    #[prost(uint32, tag = "5")]
    line: u32,
    #[prost(uint32, tag = "6")]
    column: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Ttl {
    #[prost(uint64, tag = "1")]
    seconds: u64,
    #[prost(uint32, tag = "2")]
    nanos: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Target {
    #[prost(uint32, tag = "1")]
    resource_type: u32,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Group {
    #[prost(string, tag = "1")]
    name: String,
    /// Without a matcher, the group has no nodes.
    #[prost(message, optional, tag = "2")]
    matcher: Option<Matcher>,
}

#[derive(Clone, PartialEq, Message)]
struct Matcher {
    #[prost(message, optional, tag = "1")]
    id: Option<Pattern>,
    #[prost(message, optional, tag = "2")]
    cluster: Option<Pattern>,
    #[prost(message, optional, tag = "3")]
    user_agent: Option<Pattern>,
    #[prost(string, optional, tag = "4")]
    region: Option<String>,
    #[prost(string, optional, tag = "5")]
    zone: Option<String>,
    #[prost(string, optional, tag = "6")]
    sub_zone: Option<String>,
    #[prost(btree_map = "string, string", tag = "7")]
    metadata: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Pattern {
    #[prost(string, tag = "1")]
    text: String,
    /// Whether `*` stands for itself.
    #[prost(bool, tag = "2")]
    exact: bool,
}

/// Facts of a record beside its changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Facts {
    pub(super) saved_at: SystemTime,
    pub(super) lacks_secrets: bool,
}

/// Encoder of the resources of one record.
struct Types(HashMap<ResourceType, u32>, Vec<String>);

impl Types {
    fn index(&mut self, resource_type: &ResourceType) -> u32 {
        if let Some(index) = self.0.get(resource_type) {
            return *index;
        }
        // There are at most as many types as resources of a record, which fit into memory.
        let index = self.1.len() as u32;
        self.1.push(resource_type.message().to_owned());
        self.0.insert(resource_type.clone(), index);
        index
    }
}

impl Record {
    /// Makes a record. Documents are written as paths below `root`.
    pub(super) fn of(changes: &Changes, facts: Facts, root: &Path) -> Self {
        let mut types = Types(HashMap::new(), Vec::new());
        let mut runs: Vec<Run> = Vec::new();
        for ((group, (resource_type, name)), new) in &changes.resources {
            let resource_type = types.index(resource_type);
            let origin = new.as_ref().and_then(|new| new.origin());
            let document = origin.map(|origin| path::below(root, &origin.document));
            let is_of = |run: &&mut Run| {
                run.group.as_deref() == group.as_deref()
                    && run.resource_type == resource_type
                    && (new.is_none() || run.document == document)
            };
            let run = match runs.last_mut().filter(is_of) {
                Some(_) => runs.last_mut(),
                None => {
                    runs.push(Run {
                        group: group.as_deref().map(str::to_owned),
                        resource_type,
                        document,
                        ..Run::default()
                    });
                    runs.last_mut()
                }
            };
            let Some(run) = run else { continue };
            match new {
                Some(new) => run.puts.push(put(new, &mut types)),
                None => run.removals.push(name.to_string()),
            }
        }
        let groups = changes.matchers.iter().map(|(name, matcher)| Group {
            name: name.to_string(),
            matcher: matcher.as_ref().map(Matcher::of),
        });
        let since_1970 = facts.saved_at.duration_since(SystemTime::UNIX_EPOCH);
        let saved_at = since_1970.unwrap_or_default().as_millis();
        Self {
            runs,
            groups: groups.collect(),
            types: types.1,
            position: changes.position.as_deref().map(Bytes::copy_from_slice),
            saved_at: u64::try_from(saved_at).unwrap_or(u64::MAX),
            lacks_secrets: facts.lacks_secrets,
        }
    }

    /// Reads a record. The error names the malformed part.
    pub(super) fn into_changes(self, root: &Path) -> Result<(Changes, Facts), String> {
        let types: Vec<ResourceType> = self
            .types
            .iter()
            .map(|text| resource_type(text))
            .collect::<Result<_, _>>()?;
        let type_at = |index: u32| {
            let found = types.get(index as usize).cloned();
            found.ok_or_else(|| format!("no type {index}"))
        };
        let mut changes = Changes::default();
        for run in self.runs {
            let resource_type = type_at(run.resource_type)?;
            let group: Option<Arc<str>> = run.group.map(Into::into);
            let document = run.document.map(|below| path::join(root, &below));
            for put in run.puts {
                let resource = put.into_resource(&resource_type, document.as_ref(), type_at)?;
                let key = (resource_type.clone(), Arc::clone(resource.name()));
                let place = (group.clone(), key);
                changes.resources.insert(place, Some(Arc::new(resource)));
            }
            for name in run.removals {
                let key = (resource_type.clone(), name.into());
                changes.resources.insert((group.clone(), key), None);
            }
        }
        for Group { name, matcher } in self.groups {
            let matcher = matcher.map(Matcher::into_matcher);
            changes.matchers.insert(name.into(), matcher);
        }
        changes.position = self.position.map(|position| position[..].into());
        let since_1970 = Duration::from_millis(self.saved_at);
        let saved_at = SystemTime::UNIX_EPOCH.checked_add(since_1970);
        let facts = Facts {
            saved_at: saved_at.ok_or("time out of range")?,
            lacks_secrets: self.lacks_secrets,
        };
        Ok((changes, facts))
    }
}

fn resource_type(message: &str) -> Result<ResourceType, String> {
    let known = ResourceType::from_type_url(&format!("type.googleapis.com/{message}"));
    let known = known.map(|(resource_type, _)| resource_type);
    known.ok_or_else(|| format!("malformed type {message:?}"))
}

fn put(resource: &Resource, types: &mut Types) -> Put {
    let references = resource.references().iter().map(|reference| Target {
        resource_type: types.index(&reference.resource_type),
        name: reference.name.to_string(),
    });
    let position = resource.origin().and_then(|origin| origin.position);
    Put {
        name: resource.name().to_string(),
        value: resource.value(),
        ttl: resource.ttl().map(|ttl| Ttl {
            seconds: ttl.as_secs(),
            nanos: ttl.subsec_nanos(),
        }),
        references: references.collect(),
        line: position.map_or(0, |position| position.line),
        column: position.map_or(0, |position| position.column),
    }
}

impl Put {
    fn into_resource(
        self,
        resource_type: &ResourceType,
        document: Option<&Arc<Path>>,
        type_at: impl Fn(u32) -> Result<ResourceType, String>,
    ) -> Result<Resource, String> {
        let references = self.references.into_iter().map(|target| {
            Ok(Reference {
                resource_type: type_at(target.resource_type)?,
                name: target.name.into(),
            })
        });
        let references: Vec<Reference> = references.collect::<Result<_, String>>()?;
        let mut resource = Resource::new(resource_type.clone(), self.name, &self.value);
        resource = resource.with_references(references);
        if let Some(Ttl { seconds, nanos }) = self.ttl {
            if nanos >= 1_000_000_000 {
                return Err(format!(
                    "{resource_type} {:?}: ttl out of range",
                    resource.name()
                ));
            }
            resource = resource.with_ttl(Duration::new(seconds, nanos));
        }
        if let Some(document) = document {
            let (line, column) = (self.line, self.column);
            resource = resource.with_origin(ResourceOrigin {
                document: Arc::clone(document),
                position: (line > 0).then_some(Position { line, column }),
            });
        }
        Ok(resource)
    }
}

impl Matcher {
    fn of(matcher: &NodeMatcher) -> Self {
        let pattern = |glob: &Option<Glob>| {
            glob.as_ref().map(|glob| Pattern {
                text: glob.as_str().to_owned(),
                exact: glob.is_exact(),
            })
        };
        Self {
            id: pattern(&matcher.id),
            cluster: pattern(&matcher.cluster),
            user_agent: pattern(&matcher.user_agent),
            region: matcher.region.clone(),
            zone: matcher.zone.clone(),
            sub_zone: matcher.sub_zone.clone(),
            metadata: matcher.metadata.clone(),
        }
    }

    fn into_matcher(self) -> NodeMatcher {
        let glob = |pattern: Option<Pattern>| {
            pattern.map(|Pattern { text, exact }| {
                if exact {
                    Glob::exact(&text)
                } else {
                    Glob::new(&text)
                }
            })
        };
        NodeMatcher {
            id: glob(self.id),
            cluster: glob(self.cluster),
            user_agent: glob(self.user_agent),
            region: self.region,
            zone: self.zone,
            sub_zone: self.sub_zone,
            metadata: self.metadata,
        }
    }
}
