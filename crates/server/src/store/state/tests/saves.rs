//! The cost of saves, secrets, and the thread that saves.

use std::io::ErrorKind;
use std::time::Instant;

use super::*;
use crate::durable::fake::Work;
use crate::store::Reporter;
use crate::store::state::saver::{Pace, Recorder, Saver};
use crate::store::state_status::StateStatus;

fn many(count: usize) -> Update {
    let names = (0..count).map(|i| cluster(&format!("cluster-{i}"), &"x".repeat(500)));
    names.collect::<ChangeSet>().into()
}

/// Given 5,000 resources, when one changes, then at most 4 KB are written, with one sync; what does not change is not
/// written, even if the store repeats it or lines move (RB-3).
#[test]
fn state_save_costs_what_the_change_costs() {
    let mut state = Fixture::new();
    state.save(&many(5_000)).unwrap();
    let before = state.disk.work();
    let mut update = many(5_000);
    update.changes.upserts.iter_mut().for_each(|resource| {
        let moved = Resource::new(
            ResourceType::CLUSTER,
            resource.name().clone(),
            &resource.value(),
        );
        *resource = Arc::new(moved.with_origin(origin("a.yaml", 8)));
    });
    update.changes.upserts[7] = Arc::new(cluster("cluster-7", "changed"));
    state.save(&update).unwrap();
    let after = state.disk.work();
    assert!(after.bytes - before.bytes <= 4_096, "{after:?}");
    let expected = Work {
        bytes: after.bytes,
        syncs: before.syncs + 1,
        ..before
    };
    assert_eq!(after, expected);
    let changes = state.apply(&many(1));
    assert!(changes.is_empty(), "{changes:?}");
}

/// Given 5,000 changes of one resource each, then checkpoints write at most twice the bytes of the log (RB-3).
#[test]
fn state_checkpoints_cost_twice_the_log_at_most() {
    let mut state = Fixture::new();
    state.save(&many(300)).unwrap();
    let (mut log, mut all) = (0, 0);
    for i in 0..5_000 {
        let name = format!("cluster-{}", i % 400);
        let written = state
            .save(&put(&name, &format!("{i} {}", "y".repeat(500))))
            .unwrap();
        all += written;
        if written < 1_000 {
            log += written;
        }
    }
    assert!(state.disk.work().created > 5, "there were checkpoints");
    assert!(all <= 3 * log, "{all} bytes for {log}");
    state.assert_saved();
}

/// Given a disk without room for a second file, then the log grows beyond its limit, and nothing is lost.
#[test]
fn g25_log_grows_while_no_checkpoint_can_be_made() {
    let mut state = Fixture::new();
    state.save(&many(10)).unwrap();
    state.disk.fail_to_create();
    for i in 0..200 {
        state
            .save(&put("a", &format!("{i}{}", "x".repeat(2_000))))
            .unwrap();
    }
    state.assert_saved();
    assert_eq!(state.disk.work().created, 1);
    state.disk.fail(None);
    for i in 0..200 {
        state
            .save(&put("a", &format!("{i}{}", "x".repeat(2_000))))
            .unwrap();
    }
    state.assert_saved();
    assert!(state.disk.work().created > 1);
}

/// Given secrets that are not kept, then their content is nowhere in the file, and the state says that they are missing
/// as long as there are any.
#[test]
fn g25_secrets_are_kept_only_on_request() {
    let contains = |state: &Fixture| {
        let bytes = state.bytes();
        bytes.windows(7).any(|bytes| bytes == b"private")
    };
    let mut state = Fixture::new();
    state.keeps_secrets = false;
    state.save(&put("a", "1")).unwrap();
    assert!(
        !load(&state.disk)
            .unwrap()
            .unwrap()
            .last_good
            .lacks_secrets()
    );
    state.save(&everything()).unwrap();
    assert!(!contains(&state));
    assert!(
        load(&state.disk)
            .unwrap()
            .unwrap()
            .last_good
            .lacks_secrets()
    );
    let removal = ChangeSet::default().remove(ResourceType::SECRET, "key");
    let update = Update {
        groups: vec![GroupUpdate::of_resources("edge", removal.clone())],
        ..removal.into()
    };
    state.save(&update).unwrap();
    assert!(
        !load(&state.disk)
            .unwrap()
            .unwrap()
            .last_good
            .lacks_secrets()
    );

    let mut state = Fixture::new();
    state.save(&everything()).unwrap();
    assert!(contains(&state));
    assert!(
        !load(&state.disk)
            .unwrap()
            .unwrap()
            .last_good
            .lacks_secrets()
    );
}

/// The thread that saves, on a disk in memory.
struct Running {
    disk: FakeDisk,
    recorder: Recorder,
    status: Arc<StateStatus>,
}

impl Running {
    fn start() -> Self {
        let disk = FakeDisk::default();
        let status = Arc::new(StateStatus::new("state".into(), true, None));
        let moment = Duration::from_millis(1);
        let saver = Saver {
            file: StateFile::new(disk.clone(), source(), None),
            last_good: LastGood::default(),
            keeps_secrets: true,
            is_due: false,
            pace: Pace {
                pause: moment,
                retry: moment,
                longest_retry: moment,
            },
            findings: Vec::new(),
            reporter: Reporter::default(),
            _lock: None,
        };
        Self {
            disk,
            recorder: saver.start(Arc::clone(&status)),
            status,
        }
    }

    /// Waits until the condition holds for the status.
    #[track_caller]
    fn until(&self, condition: impl Fn(&StateStatus) -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !condition(&self.status) {
            assert!(Instant::now() < end, "not in time: {:?}", self.status);
            std::thread::yield_now();
        }
    }

    fn names(&self) -> Vec<String> {
        let read = load(&self.disk).unwrap().unwrap();
        let resources = read.last_good.resources();
        resources
            .map(|(_, resource)| resource.name().to_string())
            .collect()
    }
}

#[test]
fn g25_applied_changes_are_saved_soon_and_at_the_end() {
    let state = Running::start();
    state.recorder.record(&put("a", "1"));
    state.until(|status| status.latest().unsaved_since.is_none());
    assert_eq!(state.names(), ["a"]);
    assert_eq!(state.status.saves(), 1);
    // An update that changes nothing is not written.
    state.recorder.record(&put("a", "1"));
    state.until(|status| status.latest().unsaved_since.is_none());
    assert_eq!(state.status.saves(), 1);
    state.recorder.record(&put("b", "1"));
    state.recorder.close();
    assert_eq!(state.names(), ["a", "b"]);
    assert_eq!(state.status.unsaved_for(), Duration::ZERO);
}

/// Given a full disk, then the error is shown, and changes are collected. When there is room again, all of them are
/// saved.
#[test]
fn g25_full_disk_is_reported_until_changes_are_saved() {
    let state = Running::start();
    state.recorder.record(&put("a", "1"));
    state.until(|status| status.saves() == 1);
    state.disk.fail(Some(ErrorKind::StorageFull));
    state.recorder.record(&put("b", "1"));
    state.until(|status| status.errors() > 2);
    state.recorder.record(&put("c", "1"));
    let latest = state.status.latest();
    assert!(latest.error.is_some() && latest.unsaved_since.is_some());
    assert_eq!(state.names(), ["a"]);
    state.disk.fail(None);
    state.until(|status| status.latest().unsaved_since.is_none());
    assert_eq!(state.names(), ["a", "b", "c"]);
    assert_eq!(state.status.latest().error, None);
}

#[test]
fn g25_full_disk_does_not_keep_the_process() {
    let state = Running::start();
    state.disk.fail(Some(ErrorKind::StorageFull));
    state.recorder.record(&put("a", "1"));
    state.recorder.close();
    assert!(state.status.errors() > 0);
    assert_eq!(state.disk.names(), [""; 0]);
}
