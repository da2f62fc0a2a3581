//! The state file on disks that fail, and on machines that stop.

mod crashes;
mod saves;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use oxds_core::group::{Definition, GroupUpdate, NodeMatcher};
use oxds_core::snapshot::{ChangeSet, Resource, ResourceOrigin};
use oxds_types::{Glob, Position, Reference, ResourceType};

use super::changes::Changes;
use super::file::{Invalid, NAME, ReadState, Source, StateFile, read};
use super::last_good::LastGood;
use crate::durable::Disk as _;
use crate::durable::fake::FakeDisk;
use crate::store::Update;

/// A state file with the content that it should have.
struct Fixture {
    disk: FakeDisk,
    file: StateFile<FakeDisk>,
    now: LastGood,
    keeps_secrets: bool,
}

impl Fixture {
    fn new() -> Self {
        Self::on(FakeDisk::default())
    }

    /// Continues the state of a disk.
    fn on(disk: FakeDisk) -> Self {
        let read = load(&disk).map(Result::unwrap);
        let (now, log) = read.map_or_else(Default::default, |read| (read.last_good, read.log));
        Self {
            file: StateFile::new(disk.clone(), source(), log),
            disk,
            now,
            keeps_secrets: true,
        }
    }

    /// Applies an update, and saves it.
    fn save(&mut self, update: &Update) -> std::io::Result<u64> {
        let changes = self.apply(update);
        self.file.save(&self.now, &changes)
    }

    fn apply(&mut self, update: &Update) -> Changes {
        let mut changes = Changes::default();
        changes.add_update(update);
        let changes = self.now.apply(changes, self.keeps_secrets);
        let since_1970 = self.now.saved_at.unwrap_or(SystemTime::UNIX_EPOCH);
        self.now.saved_at = Some(since_1970 + Duration::from_secs(1));
        changes
    }

    /// Returns the content of the file.
    fn bytes(&self) -> Vec<u8> {
        self.disk.read(NAME).unwrap().unwrap()
    }

    #[track_caller]
    fn assert_saved(&self) {
        let read = load(&self.disk).unwrap().unwrap();
        assert_eq!(text(&read.last_good), text(&self.now));
    }
}

fn source() -> Source {
    Source {
        identity: "dir:/shop".into(),
        root: "shop".into(),
    }
}

fn load(disk: &FakeDisk) -> Option<Result<ReadState, Invalid>> {
    let bytes = disk.read(NAME).unwrap()?;
    Some(read(&bytes.into(), &source()))
}

/// Returns everything that a state has.
fn text(state: &LastGood) -> String {
    let resources = state.resources().map(|(group, resource)| {
        let facts = (resource.ttl(), resource.references(), resource.origin());
        // Its version stands for its content.
        format!("{group:?} {resource:?} {facts:?}\n")
    });
    let resources: String = resources.collect();
    let groups: Vec<_> = state.groups().collect();
    let facts = (state.position(), state.lacks_secrets(), state.saved_at());
    format!("{resources}{groups:?} {facts:?}")
}

fn cluster(name: &str, content: &str) -> Resource {
    let resource = Resource::new(ResourceType::CLUSTER, name, content.as_bytes());
    resource.with_origin(origin("a.yaml", 7))
}

fn origin(document: &str, line: u32) -> ResourceOrigin {
    ResourceOrigin {
        document: Path::new("shop").join(document).into(),
        position: Some(Position { line, column: 1 }),
    }
}

fn put(name: &str, content: &str) -> Update {
    ChangeSet::default().put(cluster(name, content)).into()
}

fn remove(name: &str) -> Update {
    ChangeSet::default()
        .remove(ResourceType::CLUSTER, name)
        .into()
}

/// Returns an update with everything that a store can yield.
fn everything() -> Update {
    let eds = Reference {
        resource_type: ResourceType::ENDPOINT,
        name: "xdstp://a/b/c?d=e".into(),
    };
    let (own, _) = ResourceType::from_message("acme.mesh.v1.Quota");
    let changes = ChangeSet::default()
        .put(cluster("a", "1").with_references([eds]))
        .put(Resource::new(own, "gold", b"\0\xff").with_ttl(Duration::new(5, 250_000_000)))
        .put(Resource::new(ResourceType::SECRET, "key", b"private"))
        .put(Resource::new(ResourceType::LISTENER, "", b""));
    let matcher = NodeMatcher {
        id: Some(Glob::new("edge-*")),
        cluster: Some(Glob::exact("a*b")),
        user_agent: Some(Glob::new("envoy 1.*")),
        region: Some("eu".into()),
        zone: Some("1".into()),
        sub_zone: Some(String::new()),
        metadata: BTreeMap::from([("app.tier".into(), "gold".into())]),
    };
    let of_group = ChangeSet::default()
        .put(cluster("a", "2").with_origin(origin("groups/edge/b.yaml", 1)))
        .put(Resource::new(ResourceType::SECRET, "key", b"of the group"));
    Update {
        groups: vec![
            GroupUpdate::new("edge", matcher, of_group),
            GroupUpdate::of_resources("no nodes", ChangeSet::default().put(cluster("x", "3"))),
        ],
        position: Some(Arc::from(*b"head 7")),
        ..changes.into()
    }
}

fn unset(group: &str) -> Update {
    Update {
        groups: vec![GroupUpdate {
            name: group.into(),
            definition: Definition::Unset,
            changes: ChangeSet::default(),
        }],
        ..Update::default()
    }
}

/// Given a state with groups, matchers, TTLs, references, origins, own types, secrets and a position, then a checkpoint
/// and a log are read as they were written.
#[test]
fn g25_state_is_read_as_it_was_saved() {
    let mut state = Fixture::new();
    state.save(&everything()).unwrap();
    state.assert_saved();
    for update in [
        put("b", "1"),
        everything(),
        remove("a"),
        unset("edge"),
        put("b", "2"),
    ] {
        state.save(&update).unwrap();
        state.assert_saved();
    }
    let mut again = Fixture::on(state.disk.clone());
    again.save(&put("c", "1")).unwrap();
    again.assert_saved();
    assert_eq!(again.now.len(), state.now.len() + 1);
    assert_eq!(state.disk.work().created, 1, "one checkpoint, then a log");
}

#[cfg(unix)]
#[test]
fn g25_document_of_any_name_is_below_the_root_again() {
    use std::os::unix::ffi::OsStrExt as _;
    let name = std::ffi::OsStr::from_bytes(b"not \xff UTF-8.yaml");
    let document: Arc<Path> = Path::new("shop").join(name).into();
    let origin = ResourceOrigin {
        document: Arc::clone(&document),
        position: None,
    };
    let resource = cluster("a", "1").with_origin(origin);
    let mut state = Fixture::new();
    state
        .save(&ChangeSet::default().put(resource).into())
        .unwrap();
    // The folder has another path now.
    let source = Source {
        root: "/etc/shop".into(),
        ..source()
    };
    let read = read(&state.bytes().into(), &source).unwrap();
    let (_, resource) = read.last_good.resources().next().unwrap();
    let document = &resource.origin().unwrap().document;
    assert_eq!(**document, *Path::new("/etc/shop").join(name));
}

/// Given a state with a checkpoint and a log, when it is cut anywhere, then it is invalid, or it is a state that was
/// saved.
#[test]
fn g25_cut_state_is_an_earlier_one_or_invalid() {
    let (states, bytes) = history();
    let mut found = vec![0; states.len()];
    for len in 0..=bytes.len() {
        match read(&Bytes::copy_from_slice(&bytes[..len]), &source()) {
            Err(_) => assert_eq!(found[1..], [0, 0], "only a cut checkpoint is invalid"),
            Ok(read) => {
                let text = text(&read.last_good);
                let at = states.iter().position(|state| *state == text);
                found[at.expect("a state that was saved")] += 1;
            }
        }
    }
    assert!(found.iter().all(|times| *times > 0), "{found:?}");
}

/// Given a state with a checkpoint and a log, when one byte is wrong, then it is invalid; if the byte is in the last
/// record, it may be the state before that record.
#[test]
fn g25_wrong_byte_never_leads_to_another_state() {
    let (states, bytes) = history();
    let mut invalid = 0;
    for at in 0..bytes.len() {
        for bit in [1, 0x80] {
            let mut bytes = bytes.clone();
            bytes[at] ^= bit;
            match read(&bytes.into(), &source()) {
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    invalid += 1;
                }
                Ok(read) => assert_eq!(text(&read.last_good), states[1], "byte {at}"),
            }
        }
    }
    assert!(invalid > bytes.len());
}

/// Returns three states that were saved one after the other, and the file.
fn history() -> (Vec<String>, Vec<u8>) {
    let mut state = Fixture::new();
    let updates = [everything(), put("b", "1"), remove("a")];
    let states = updates.map(|update| {
        state.save(&update).unwrap();
        text(&state.now)
    });
    (states.into(), state.bytes())
}

#[test]
fn g25_state_of_another_source_or_format_is_invalid() {
    let mut state = Fixture::new();
    state.save(&put("a", "1")).unwrap();
    let other = Source {
        identity: "dir:/other".into(),
        ..source()
    };
    let error = read(&state.bytes().into(), &other).unwrap_err().to_string();
    assert_eq!(error, "it is the state of dir:/shop, expected dir:/other");

    let mut newer = Vec::new();
    crate::durable::FrameWriter::begin(2, 0, &mut newer);
    let error = read(&newer.into(), &source()).unwrap_err().to_string();
    assert_eq!(error, "format 2, expected 1");
    for bytes in ["", "name: a\n"] {
        let error = read(&bytes.into(), &source()).unwrap_err().to_string();
        assert_eq!(error, "not a state file of oxds");
    }
}
